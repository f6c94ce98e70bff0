"""What must be true after every crash run, in one list.

It compares three independent witnesses: the rows, the journal of the agents, and the platform.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from shared.core.errors import NotReplicated
from shared.db.replica.sync import sync
from shared.queue.turns import APOLOGY
from tests.e2e.crash.harness import AWS, ROOT, Post, query, until
from tests.e2e.crash.people import by_chat

# A note that tells an agent of an answer that was not delivered is Postroom's own.
WRITTEN = "FROM messages WHERE NOT (kind = 'system' AND trigger = 0)"


def check(post: Post, *, all_completed: bool = False) -> None:
    """Check every promise. All work is finished; the host may be up or not."""
    problems = [
        *_stored(post),
        *_ended(post, all_completed),
        *_turns(post),
        *_answered(post),
        *_sent(post),
        *_sound(post.db),
    ]
    assert not problems, "\n".join(problems[:40])


def check_so_far(post: Post) -> None:
    """Check the promises that hold while work is pending."""
    problems = [*_turns(post), *_sent(post), *_sound(post.db)]
    assert not problems, "\n".join(problems[:40])


def check_turns(post: Post) -> None:
    """Check the promises about turns and their answers, where people write more than plain texts."""
    problems = [*_ended(post, all_completed=True), *_turns(post), *_answered(post), *_sound(post.db)]
    assert not problems, "\n".join(problems[:40])


def check_runs(post: Post) -> None:
    """Check the promises about turns and the file, where the platform shows texts in a form of its own."""
    problems = [*_turns(post), *_sound(post.db)]
    assert not problems, "\n".join(problems[:40])


def check_stored(post: Post) -> None:
    """Check the promises that hold where only ``ingest`` runs."""
    problems = [*_stored(post), *_sound(post.db)]
    assert not problems, "\n".join(problems[:40])


def check_replica(post: Post, folder: Path, timeout_s: float = 60.0) -> None:
    """Stop all writers, then check that the replica restores to the same rows."""
    post.stop(*[name for name in post.children if name not in ("litestream", "s3")])
    until("the replica to have everything", lambda: _is_synced(post), timeout_s)
    copy = folder / "restored.db"
    copy.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "infra.restore", "--output", str(copy)]
    environment = {"PATH": os.environ["PATH"], **AWS, "POSTROOM_REPLICA_URL": post.replica_url}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    for table in _tables(post.db):
        assert _all_rows(copy, table) == _all_rows(post.db, table), f"{table} is not the same in the replica"


def _is_synced(post: Post) -> bool:
    try:
        asyncio.run(sync(post.litestream_socket, post.db, 10))
    except NotReplicated:
        return False
    return True


def journal(post: Post) -> list[dict[str, Any]]:
    """The lines of the agents, in the order of time."""
    path = post.record / "turns"
    whole, _, _ = path.read_text().rpartition("\n") if path.exists() else ("", "", "")
    return [json.loads(line) for line in whole.splitlines()]


def _key(text: str) -> str:
    return text.partition("|")[0].strip()


def _stored(post: Post) -> list[str]:
    """P1, P2: every acknowledged message is stored, and every stored message is stored once."""
    found = Counter(dict(post.query(f"SELECT message, count(*) {WRITTEN} GROUP BY message")))
    written = post.platform.written
    lost = [text for text, each in written.items() if each.accepted and not found[text]]
    return [
        *(f"lost: {text!r} was acknowledged ({written[text].statuses}) and is not stored" for text in lost),
        *(f"doubled: {text!r} is stored {count} times" for text, count in found.items() if count > 1),
        *(f"nobody wrote: {text!r}" for text in found if text not in written),
    ]


def _ended(post: Post, all_completed: bool) -> list[str]:
    """P6: every message is finished, and a dead one has a reason."""
    problems = [f"not finished: {row}" for row in post.open_work()]
    for text, status, error in post.query(f"SELECT message, status, last_error {WRITTEN}"):
        if status not in ("completed", "dead", "cancelled"):
            problems.append(f"{text!r} is {status}")
        if status == "dead" and not error:
            problems.append(f"{text!r} is dead without a reason")
        if status != "completed" and all_completed:
            problems.append(f"{text!r} is {status}: {error}")
    problems += [
        f"response {id_} is dead without a reason"
        for (id_,) in post.query("SELECT id FROM responses WHERE status = 'dead' AND ifnull(last_error, '') = ''")
    ]
    return problems


def _turns(post: Post) -> list[str]:
    """P3, P8: one turn of a session, no more of an agent than it may run, oldest first, each with a claim."""
    problems = []
    rank = dict(post.query("SELECT message_id, id FROM messages"))
    allowed = dict(post.query("SELECT id, concurrency FROM agents"))
    claims: Counter[str] = Counter()
    for (data,) in post.query("SELECT data FROM events WHERE type = 'chain_step_start'"):
        claims.update(json.loads(data)["batch"])
    current: dict[str, int] = {}  # session to the process of its newest turn
    starts: Counter[str] = Counter()
    last: dict[str, int] = defaultdict(int)
    for line in journal(post):
        session, run = line["session"], line["run"]
        if line["what"] == "overlap":
            problems.append(f"two turns at once of one {line['of']}: {line}")
        elif line["what"] == "end":
            if current.get(session) != run:
                problems.append(f"turn {run} of {session} continued after {current.get(session)} had begun")
        else:
            starts.update(line["ids"])
            places = [rank[id_] for id_ in line["ids"] if id_ in rank]
            if len(places) != len(line["ids"]):
                problems.append(f"a turn of messages that are not stored: {line}")
                continue
            if places != sorted(places) or places[0] < last[session]:
                problems.append(f"out of order in {session}: {places} after {last[session]}")
            last[session] = max(last[session], places[0])
            current[session] = run
    problems += [
        f"{id_} had {count} turns and {claims[id_]} claims" for id_, count in starts.items() if count > claims[id_]
    ]
    problems += _crowded(post, allowed)
    return problems


def _crowded(post: Post, allowed: dict[str, int]) -> list[str]:
    """Agents over their concurrency, by the turns with a known start and end."""
    open_: dict[int, int] = {}
    spans = []
    for line in journal(post):
        if line["what"] == "start":
            open_[line["run"]] = line["at_ns"]
        elif line["what"] == "end" and line["run"] in open_:
            spans.append((line["agent"], open_.pop(line["run"]), line["at_ns"]))
    problems = []
    for agent in {agent for agent, _, _ in spans}:
        steps = sorted(step for name, begun, ended in spans if name == agent for step in ((begun, 1), (ended, -1)))
        running = most = 0
        for _, change in steps:
            running += change
            most = max(most, running)
        if most > allowed[agent]:
            problems.append(f"{most} turns of {agent} at once, {allowed[agent]} are allowed")
    return problems


def _answered(post: Post) -> list[str]:
    """P5, P6: a completed message has one answer, a dead one has one sentence, and no answer lacks its message."""
    problems = []
    answers: dict[str, list[str]] = defaultdict(list)
    # A new epoch keeps the numbers that a lost disk may have given out, by a row that is no answer (response_numbers).
    said_to = "SELECT message_id, message FROM responses WHERE status != 'deleted' ORDER BY id"
    for message_id, text in post.query(said_to):
        answers[message_id].append(text)
    ends = [line for line in journal(post) if line["what"] == "end" and line.get("act") in ("ok", "files")]
    said = {id_ for line in ends for id_ in line["ids"]}
    for message_id, text, status in post.query("SELECT message_id, message, status FROM messages WHERE trigger = 1"):
        got = answers.pop(message_id, [])
        if status == "completed" and got != [f"re {_key(text)}"]:
            problems.append(f"{text!r} is completed with the answers {got}")
        if status == "completed" and message_id not in said:
            problems.append(f"{text!r} is completed, and no turn of it succeeded")
        if status == "dead" and (len(got) != 1 or got[0] != APOLOGY):
            problems.append(f"{text!r} is dead, and its sender got {got}")
    problems += [f"an answer to nothing: {id_} {texts}" for id_, texts in answers.items()]
    return problems


def _sent(post: Post) -> list[str]:
    """P7, P8: acknowledged responses arrived, a second arrival has a recorded doubt, and each chat is in order."""
    problems = []
    found = post.query("SELECT id, platform_id, message, status FROM responses ORDER BY id")
    doubts = Counter(
        dict(
            post.query(
                "SELECT response_id, count(*) FROM events WHERE type = 'response_outcome_unknown' GROUP BY response_id"
            )
        )
    )
    taken: Counter[tuple[str, str]] = Counter((send.chat, send.text) for send in post.platform.taken)
    by_text: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for id_, chat, text, status in found:
        by_text[chat, text].append((id_, status))
    for key, same in by_text.items():  # several responses share a text only where it is the apology
        least = sum(status == "acked" for _, status in same)
        most = sum(1 + doubts[id_] for id_, _ in same)
        if not least <= taken[key] <= most:
            problems.append(f"{key} arrived {taken[key]} times; {least} to {most} are explained")
    problems += [f"arrived without a response: {key}" for key in taken if key not in by_text]
    rank = {key: same[0][0] for key, same in by_text.items() if len(same) == 1}
    for chat, sends in by_chat(post.platform.taken).items():
        order = [rank[chat, send.text] for send in sends if (chat, send.text) in rank]
        if order != sorted(order):
            late = next(index for index in range(1, len(order)) if order[index] < order[index - 1])
            problems.append(f"chat {chat} got its responses in the order {order[max(0, late - 3) : late + 3]}")
    return problems


def _sound(db: Path) -> list[str]:
    """Check the database file itself."""
    found = query(db, "PRAGMA integrity_check")
    broken = query(db, "PRAGMA foreign_key_check")
    return [*([] if found == [("ok",)] else [f"integrity: {found[:3]}"]), *(f"foreign key: {row}" for row in broken)]


def _tables(db: Path) -> list[str]:
    names = query(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in names if not name.startswith("_litestream")]


def _all_rows(db: Path, table: str) -> list[tuple[Any, ...]]:
    return sorted(query(db, f"SELECT * FROM {table}"), key=repr)
