"""What must be true after every run, one function a promise: each compares witnesses, and returns what is wrong.

docs/promises.md has the promises P1 to P12 in words.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import apsw

from emulator.proving import row_promises
from emulator.proving.ledger import DOUBTS, UNREADABLE, WRITTEN, balance
from emulator.proving.platform import by_chat
from emulator.proving.witnesses import Witnesses, query
from shared.queue.turns import APOLOGY

_ANSWERING = ("ok", "files")  # the agent's words that answer


def stored(seen: Witnesses) -> list[str]:
    """P1, P2: every acknowledged message is stored or dropped with a reason, and every stored message once."""
    found = Counter(dict(seen.rows(f"SELECT message, count(*) {WRITTEN} GROUP BY message")))
    lost = balance(seen).lost
    return [
        *(f"lost: {text!r} was acknowledged ({seen.written[text].statuses}), and {why}" for text, why in lost.items()),
        *(f"doubled: {text!r} is stored {count} times" for text, count in found.items() if count > 1),
        *(f"nobody wrote: {text!r}" for text in found if text not in seen.written),
    ]


def refused(seen: Witnesses) -> list[str]:
    """P12: a stranger is refused where the chat refuses strangers, and nothing else is dropped."""
    closed = {chat for (chat,) in seen.rows("SELECT platform_id FROM chats WHERE sender_policy = 'strict'")}
    turned_away = seen.rows("SELECT event_key, platform_id FROM dropped WHERE reason = 'sender_unknown'")
    let_in = seen.rows("SELECT message, platform_id, agent FROM messages")
    return [
        *row_promises.never_dropped(seen.rows, ["sender_unknown"]),
        *(f"refused without need: event {key} of chat {chat}" for key, chat in turned_away if chat not in closed),
        *(f"a stranger reached {agent}: {text!r}" for text, chat, agent in let_in if chat in closed),
    ]


def ended(seen: Witnesses) -> list[str]:
    """P6: every message is finished, a dead one has a reason, and each failed attempt counts."""
    problems = [f"not finished: {text!r} is {status}" for text, status in seen.rows(_OPEN)]
    problems += [
        f"{text!r} is dead without a reason"
        for (text,) in seen.rows(f"SELECT message {WRITTEN} AND status = 'dead' AND ifnull(last_error, '') = ''")
    ]
    problems += [
        f"response {id_} is dead without a reason"
        for (id_,) in seen.rows("SELECT id FROM responses WHERE status = 'dead' AND ifnull(last_error, '') = ''")
    ]
    return [*problems, *row_promises.attempts(seen.rows)]


_OPEN = f"""
    SELECT message, status {WRITTEN} AND status NOT IN ('completed', 'dead', 'cancelled')
     UNION ALL
    SELECT 'response ' || id, status FROM responses WHERE status IN ('pending', 'delivering')
"""


def turns(seen: Witnesses) -> list[str]:
    """P3, P8: one turn of a session, no more of an agent than it may run, oldest first, each with a claim.

    The agents' journal tells it, and the rows do.
    """
    problems = []
    rank = dict(seen.rows("SELECT message_id, id FROM messages"))
    allowed = dict(seen.rows("SELECT id, concurrency FROM agents"))
    claims: Counter[str] = Counter()
    for (data,) in seen.rows("SELECT data FROM events WHERE type = 'chain_step_start'"):
        claims.update(json.loads(data)["batch"])
    claims.update({id_: len(seen.lost_disks_ns) for id_ in rank})  # each lost disk may have had a claim of its own
    losses = [*sorted(seen.lost_disks_ns)]
    current: dict[str, str] = {}  # session to the process of its newest turn
    starts: Counter[str] = Counter()
    last: dict[str, int] = defaultdict(int)
    for line in seen.turns:
        session, run = line["session"], line["run"]
        if losses and line["at_ns"] > losses[0]:
            losses.pop(0)
            current, last = {}, defaultdict(int)
        if line["what"] == "overlap":
            problems.append(f"two turns at once of one {line['of']}: {line}")
        elif line["what"] == "end":
            if current.get(session, run) != run:
                problems.append(f"turn {run} of {session} continued after {current.get(session)} had begun")
        else:
            starts.update(line["ids"])
            places = [rank[id_] for id_ in line["ids"] if id_ in rank]
            if len(places) != len(line["ids"]) and not losses:  # else the disk took rows that nobody was told of
                problems.append(f"a turn of messages that are not stored: {line}")
                continue
            if places and (places != sorted(places) or places[0] < last[session]):
                problems.append(f"out of order in {session}: {places} after {last[session]}")
            last[session] = max([last[session], *places[:1]])
            current[session] = run
    problems += [
        f"{id_} had {count} turns and {claims[id_]} claims"
        for id_, count in starts.items()
        if id_ in rank and count > claims[id_]
    ]
    return [*problems, *_crowded(seen, allowed), *row_promises.turns(seen.rows), *row_promises.spoke_once(seen.rows)]


def _crowded(seen: Witnesses, allowed: Mapping[str, int]) -> list[str]:
    """Agents over their concurrency, by the turns with a known start and end."""
    open_: dict[str, int] = {}
    spans = []
    for line in seen.turns:
        if line["what"] == "start":
            open_[line["run"]] = line["at_ns"]
        elif line["what"] == "end" and line["run"] in open_:
            spans.append((line["agent"], open_.pop(line["run"]), line["at_ns"]))
    problems = []
    for agent, concurrency in allowed.items():
        steps = sorted(step for name, begun, ended in spans if name == agent for step in ((begun, 1), (ended, -1)))
        running = most = 0
        for _, change in steps:
            running += change
            most = max(most, running)
        if most > concurrency:
            problems.append(f"{most} turns of {agent} at once, {concurrency} are allowed")
    return problems


def answered(seen: Witnesses) -> list[str]:
    """P5, P6: a completed message has one answer and its history, a dead one a sentence, an answer has its message."""
    problems = row_promises.histories(seen.rows)
    answers: dict[str, list[str]] = defaultdict(list)
    # A new epoch keeps the numbers that a lost disk may have given out, by a row that is no answer (`epochs`).
    said_to = "SELECT message_id, message FROM responses WHERE status != 'deleted' ORDER BY id"
    for message_id, text in seen.rows(said_to):
        answers[message_id].append(text)
    ends = [line for line in seen.turns if line["what"] == "end" and line.get("act") in _ANSWERING]
    said = {id_ for line in ends for id_ in line["ids"]}
    for message_id, text, status in seen.rows("SELECT message_id, message, status FROM messages WHERE trigger = 1"):
        got = answers.pop(message_id, [])
        if status == "completed" and got != seen.answers_to(text):
            problems.append(f"{text!r} is completed with the answers {got}")
        if status == "completed" and seen.turns and message_id not in said:
            problems.append(f"{text!r} is completed, and no turn of it succeeded")
        if status == "dead" and (len(got) != 1 or got[0] != APOLOGY):
            problems.append(f"{text!r} is dead, and its sender got {got}")
    problems += [f"an answer to nothing: {id_} {texts}" for id_, texts in answers.items()]
    return problems


def sent(seen: Witnesses) -> list[str]:
    """P7, P8: acknowledged responses arrived, a second arrival has a recorded doubt, and each chat is in order."""
    found = seen.rows("SELECT id, platform_id, message, status FROM responses WHERE status != 'deleted' ORDER BY id")
    taken = Counter((send.chat, send.text) for send in seen.taken)
    problems, rank = arrivals(found, taken, Counter(dict(seen.rows(DOUBTS))))
    for chat, sends in by_chat(seen.taken).items():
        order = [rank[chat, send.text] for send in sends if (chat, send.text) in rank]
        if order != sorted(order):
            late = next(index for index in range(1, len(order)) if order[index] < order[index - 1])
            problems.append(f"chat {chat} got its responses in the order {order[max(0, late - 3) : late + 3]}")
    return problems


def private(seen: Witnesses) -> list[str]:
    """P8, P10: what was written in a chat, and what was answered, is seen in no other, by people or by agents.

    The first word of each text names its chat.
    """
    chats: dict[str, str] = dict(
        seen.rows("SELECT s.session_id, c.platform_id FROM sessions s JOIN chats c ON c.id = s.chat_id")
    )
    secrets: dict[str, set[str]] = defaultdict(set)
    for written in seen.written.values():
        secrets[f"{written.text.split()[0]} "].add(written.chat)
    shown = [
        (chats[line["session"]], text)
        for line in seen.turns
        if line["what"] == "start" and line["session"] in chats
        for text in line["texts"]
    ]
    return row_promises.private([*((send.chat, send.text) for send in seen.taken), *shown], secrets)


def arrivals(
    found: Iterable[tuple[int, str, str, str]], taken: Counter[tuple[str, str]], doubts: Counter[int]
) -> tuple[list[str], dict[tuple[str, str], int]]:
    """Compare responses with what arrived, by chat and text.

    Args:
        found: of each response its id, chat, text and status, in their order.
        taken: how often the platform took a text in a chat.
        doubts: how many sends of a response had an unknown outcome.

    Returns:
        What is wrong, and the response of each text that only one response has.
    """
    problems = []
    by_text: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for id_, chat, text, status in found:
        by_text[chat, text].append((id_, status))
    for key, same in by_text.items():  # several responses share a text only where it is the apology
        least = sum(status == "acked" for _, status in same)
        most = sum(1 + doubts[id_] for id_, _ in same)
        if not least <= taken[key] <= most:
            problems.append(f"{key} arrived {taken[key]} times; {least} to {most} are explained")
    problems += [f"arrived without a response: {key}" for key in taken if key not in by_text]
    return problems, {key: same[0][0] for key, same in by_text.items() if len(same) == 1}


def sound(seen: Witnesses) -> list[str]:
    """The database file itself."""
    return row_promises.sound(seen.rows)


Promise = Callable[[Witnesses], list[str]]
# By the words of a receipt.
PROMISES: Mapping[str, Promise] = {
    "accepted is stored, once": stored,
    "strangers are refused, and nobody else": refused,
    "each message ends, with a reason where it fails": ended,
    "one turn at a time, in order, each with its claim": turns,
    "one answer to each, and none to nothing": answered,
    "arrived in order; twice only with a recorded doubt": sent,
    "seen in its own chat alone": private,
    "the database file is sound": sound,
}


def problems_of(seen: Witnesses, promises: Iterable[Promise] = tuple(PROMISES.values())) -> list[str]:
    """What is wrong, promise by promise."""
    return [problem for promise in promises for problem in _problems(seen, promise)]


def _problems(seen: Witnesses, promise: Promise) -> list[str]:
    try:
        return promise(seen)
    except apsw.Error as error:  # a damaged file is what a run looks for
        return [f"{UNREADABLE}: {error}"]


def differing_tables(one: Path, other: Path) -> list[str]:
    """The tables of two databases whose rows are not the same; Litestream's own are left out."""
    names = query(one, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    own = [name for (name,) in names if not name.startswith("_litestream")]
    return [name for name in own if _all_rows(one, name) != _all_rows(other, name)]


def _all_rows(database: Path, table: str) -> list[tuple[Any, ...]]:
    return sorted(query(database, f"SELECT * FROM {table}"), key=repr)
