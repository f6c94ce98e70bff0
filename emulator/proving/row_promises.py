"""What must be true of the rows alone, and of places: the promises that need no journal and no platform.

Each function takes a way to read the rows, and returns sentences about what is wrong. Runs of processes and simulated
worlds check the same ones.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

Rows = Callable[[str], list[tuple[Any, ...]]]

# -- the file


def sound(rows: Rows) -> list[str]:
    """The database file itself."""
    found = rows("PRAGMA integrity_check")
    broken = rows("PRAGMA foreign_key_check")
    return [*([] if found == [("ok",)] else [f"integrity: {found[:3]}"]), *(f"foreign key: {row}" for row in broken)]


# -- the ledger


class EventOutcomes(NamedTuple):
    """What became of the events that were accepted, by outcome; what is wrong with it; outcome and reason of each."""

    counts: Counter[str]
    problems: list[str]
    became: Mapping[tuple[str, str], tuple[str, str]]


_BECAME = {"completed": "answered", "pending": "waiting", "processing": "waiting", "paused": "waiting"}
# A record of these words remembers that something was done; the event was not refused.
_DONE = ("command_done", "command_refused", "pairing_done")


def outcomes(rows: Rows, accepted: Iterable[tuple[str, str]]) -> EventOutcomes:
    """Accepted = answered + read + dead + dropped + waiting + cancelled + forgotten; each with its reason.

    Args:
        accepted: channel and event key of each event that the platform was told is ours.
    """
    counts: Counter[str] = Counter()
    problems = []
    became: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)  # outcome and reason
    for channel, key, trigger, status, error in rows(
        "SELECT channel, event_key, trigger, status, last_error FROM messages WHERE event_key IS NOT NULL"
    ):
        outcome = "read" if status == "completed" and not trigger else _BECAME.get(status) or status
        became[channel, key].append((str(outcome), error or ""))
    for channel, key, reason in rows("SELECT channel, event_key, reason FROM dropped WHERE event_key IS NOT NULL"):
        became[channel, key].append(("done" if reason in _DONE else "dropped", reason))
    for channel, key in rows(
        "SELECT channel, event_key FROM held UNION ALL SELECT channel, event_key FROM album_pieces"
    ):
        became[channel, key].append(("waiting", ""))
    for channel, key in rows("SELECT channel, event_key FROM event_keys"):
        became[channel, key].append(("forgotten", ""))
    for key in accepted:
        found = became.get(key, [])
        if not found:
            problems.append(f"lost: {key} was accepted, and nothing tells what became of it")
        elif ("dropped", "rate_limited") in found and len(found) > 1:  # its sender was told that nobody read it
            problems.append(f"{key} was dropped, and also is {found}")
        for outcome, reason in found:
            if outcome in ("dead", "dropped", "cancelled") and not reason:
                problems.append(f"{key} is {outcome} without a reason")
        counts[found[0][0] if found else "lost"] += 1
    return EventOutcomes(counts, problems, {key: found[0] for key, found in became.items()})


def never_dropped(rows: Rows, but_for: Collection[str] = ()) -> list[str]:
    """No event is dropped, but for these reasons: in a world in which everybody may write."""
    return [
        f"dropped without need: event {key} of {channel} ({reason} {detail})"
        for channel, key, reason, detail in rows("SELECT channel, event_key, reason, detail FROM dropped")
        if reason not in but_for
    ]


# -- turns


_STORY = """
    SELECT session_id, type, message_id, data
      FROM events
     WHERE type IN ('chain_step_start', 'chain_step_done', 'message_retry', 'message_dead', 'message_released',
                    'message_cancelled', 'message_retried', 'message_steered')
     ORDER BY id
"""
_ENDS = ("message_retry", "message_dead", "message_released")
_WITHOUT_A_TURN = ("unreadable", "interrupted")  # its row can't be used; another message of its batch was cancelled


def turns(rows: Rows) -> list[str]:
    """By the events of each session: no turn twice at once, its messages oldest first, and one end of each.

    What is urgent, was planned for later or retried by hand has no place in the order. A turn that lost its messages
    ends none of them. Events that were pruned tell of no beginning, and then no end is missed.
    """
    problems = []
    asks: dict[str, int] = dict(rows("SELECT message_id, id FROM messages WHERE trigger = 1"))
    in_order = {id_ for (id_,) in rows(
        "SELECT message_id FROM messages WHERE urgency = 'normal' AND scheduled_at IS NULL"
        " AND NOT (process_after IS NOT NULL AND failure IS NULL AND retry_count = 0)"
    )}  # fmt: skip
    running: dict[int, set[str]] = defaultdict(set)
    begun: set[str] = set()
    last: dict[int, int] = defaultdict(int)
    for session, kind, message_id, data in rows(_STORY):
        match kind:
            case "chain_step_start":
                batch = [id_ for id_ in json.loads(data)["batch"] if id_ in asks]
                if running[session]:
                    problems.append(f"session {session} began {batch} while {sorted(running[session])} ran")
                running[session] = set(batch)
                begun.update(batch)
                places = [asks[id_] for id_ in batch if id_ in in_order]
                if places != sorted(places) or (places and places[0] < last[session]):
                    problems.append(f"session {session} took {places} after {last[session]}")
                last[session] = max([last[session], *places[:1]])
            case "chain_step_done":
                lost = begun.intersection(json.loads(data)["batch"]) - running[session]
                problems += [f"a turn of session {session} completed {id_} without having it" for id_ in sorted(lost)]
                running[session].clear()
            case "message_steered":
                running[session].add(message_id)
            case "message_retried":
                in_order.discard(message_id)
            case _:
                has_turn = message_id in running[session] or message_id not in begun
                if not has_turn and kind in _ENDS and json.loads(data).get("failure") not in _WITHOUT_A_TURN:
                    problems.append(f"a turn of session {session} gave {message_id} back without having it")
                running[session].discard(message_id)
    return problems


def attempts(rows: Rows) -> list[str]:
    """Each failed attempt counts, so that a message ends: none fails again and again in the same one.

    It fails twice in one where it runs alone from then on, because a turn over several messages failed for good.
    """
    found = rows(
        "SELECT message_id, data ->> '$.retry_count', count(*) FROM events"
        " WHERE type = 'message_retry' AND data ->> '$.failure' = 'error'"
        " AND message_id NOT IN (SELECT message_id FROM events WHERE type = 'message_retried')"
        " GROUP BY 1, 2 HAVING count(*) > 2"
    )
    return [f"{id_} has failed {times} times, and its count is {count}" for id_, count, times in found]


def spoke_once(rows: Rows) -> list[str]:
    """No turn that said something for good is run again, but once for an agent whose row lets it go on."""
    problems = []
    first: dict[str, int] = dict(rows(
        "SELECT s.story, min(e.id) FROM spoken s JOIN events e ON e.response_id = s.response"
        " WHERE e.type = 'response_ready' GROUP BY s.story"
    ))  # fmt: skip
    begun: dict[str, list[int]] = defaultdict(list)
    for id_, data in rows("SELECT id, data FROM events WHERE type = 'chain_step_start'"):
        for message_id in json.loads(data)["batch"]:
            begun[message_id].append(id_)
    asked_for = {id_ for (id_,) in rows(  # by hand, or by a person's next line
        "SELECT message_id FROM events WHERE type = 'message_retried'"
        " OR (type = 'message_retry' AND data ->> '$.failure' = 'interrupted')"
    )}  # fmt: skip
    for message_id, story, may_go_on in rows(
        "SELECT m.message_id, m.spoken, a.resume_spoken FROM messages m JOIN agents a ON a.id = m.agent"
        " WHERE m.spoken IS NOT NULL AND m.trigger = 1"
    ):
        again = [id_ for id_ in begun[message_id] if id_ > first.get(story, 2**63)]
        if len(again) > may_go_on and message_id not in asked_for:
            problems.append(f"{message_id} was run {len(again)} times more after its turn had spoken")
    return problems


def histories(rows: Rows) -> list[str]:
    """What a turn that ended well had heard and said is in the history of its agent, where nobody is forgotten."""
    problems: list[str] = []
    lines: Counter[str] = Counter(dict(rows("SELECT role || message_id, count(*) FROM agent_messages GROUP BY 1")))
    asked = {id_ for (id_,) in rows("SELECT message_id FROM messages WHERE trigger = 1")}
    asked -= {id_ for (id_,) in rows("SELECT message_id FROM events WHERE type = 'turn_not_run'")}
    for message_id, data in rows("SELECT message_id, data FROM events WHERE type = 'chain_step_done' ORDER BY id"):
        turn = json.loads(data)
        unheard = [id_ for id_ in turn["batch"] if id_ in asked and not lines[f"user{id_}"]]
        problems += [f"{id_} had its turn, and is not in the history of its agent" for id_ in unheard]
        answers, said = turn.get("answers", 0), sum(lines[f"assistant{id_}"] for id_ in turn["batch"])
        if said < answers:
            problems.append(f"the turn of {message_id} gave {answers} answers, and {said} are in the history")
    return problems


def private(seen: Iterable[tuple[str, str]], secrets: Mapping[str, Collection[str]]) -> list[str]:
    """Every private text stays where its sender was.

    Args:
        seen: place and text of everything that anybody was shown: chats by people, sessions by agents.
        secrets: a mark in a private text, and the places in which it may be seen.
    """
    return [
        f"{mark!r} was private to {sorted(places)} and was seen in {place}"
        for place, text in seen
        for mark, places in secrets.items()
        if mark in text and place not in places
    ]
