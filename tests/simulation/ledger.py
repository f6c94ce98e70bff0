"""What must be true of every world, whatever went wrong in it.

The witnesses are the rows, the platform, and the people. They know nothing of each other.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from emulator.proving import promises, row_promises
from emulator.proving.ledger import DOUBTS
from shared.queue.endings import NOT_SENT, STILL_WORKING
from shared.queue.turns import APOLOGY
from shared.turns.run.agent_run import BEGUN_ANEW
from tests.simulation import row_checks, sent_files
from tests.simulation.agents.owners import DECIDES_NOTHING, OWNER
from tests.simulation.machine.seams import BEGAN_MS
from tests.simulation.parts import Query
from tests.simulation.people.lines import Line
from tests.simulation.platforms.base import Platform
from tests.simulation.platforms.messages import Written

OPEN = """
SELECT 'message', message_id, status, last_error FROM messages
 WHERE status IN ('pending', 'processing') AND recurrence IS NULL AND trigger = 1
UNION ALL SELECT 'response', message_id, status, last_error FROM responses WHERE status IN ('pending', 'delivering')
UNION ALL SELECT 'line of what its agent does', turn, agent, response FROM progress_lines
"""
OUTAGES = "SELECT channel, reason FROM channel_outages WHERE probe_at IS NOT NULL"
_DELETED = "(deleted this message)"  # what the agent is told of a message that it had
_SAID = "status != 'deleted' AND coalesce(content ->> 'edits', content ->> 'removes') IS NULL"
LONGEST_WAIT_MS = 310_000
"""No retry of a message or a response is further away than the cap of the backoff and its jitter allow."""


def check(
    query: Query,
    platforms: Sequence[Platform],
    lines: Mapping[str, Line],
    *,
    is_clock_steady: bool = True,
    prunes: bool = False,
) -> list[str]:
    """All that is wrong at the end of a world, when everything had time to end.

    Args:
        prunes: a message may be deleted by its sender when nothing of it is there any more.
    """
    return [
        *row_promises.sound(query),
        *row_promises.outcomes(query, _accepted(platforms)).problems,
        *(problem for each in platforms for problem in _stored(query, each, lines)),
        *row_promises.never_dropped(query, (*DECIDES_NOTHING, *(["message_unknown"] if prunes else []))),
        *_ended(query),
        *row_promises.turns(query),
        *row_promises.attempts(query),
        *row_promises.spoke_once(query),
        *row_promises.histories(query),
        *row_checks.arrivals(query),
        *row_checks.calls(query),
        *row_checks.questions(query),
        *row_checks.schedules(query),
        *_answered(query, platforms, lines),
        *(_deleted(query, platforms) if is_clock_steady else ()),
        *(_edited(query, platforms) if is_clock_steady else ()),
        *sent_files.check(query, platforms, is_clock_steady=is_clock_steady),
        *(problem for each in platforms for problem in (*each.wrong, *_sent(query, each))),
        *_apart(platforms),
    ]


def waits(query: Query, now_ms: int) -> list[str]:
    """What waits for a sweep: longer than its row could have asked for, because somebody set the clock, or for an owner
    whose lease is over.
    """
    late = now_ms + LONGEST_WAIT_MS
    return [
        *(
            f"{table} {id_} waits too long for its next attempt"
            for table, column in (("messages", "process_after"), ("responses", "deliver_after"))
            for (id_,) in query(
                f"SELECT message_id FROM {table} WHERE status = 'pending' AND recurrence IS NULL"
                f" AND retry_count > 0 AND {column} > {late}"
            )
        ),
        *(
            f"{table} {id_} waits for {owner}, whose lease is over"
            for table, status in (("messages", "processing"), ("responses", "delivering"))
            for id_, owner in query(
                f"SELECT message_id, claimed_by FROM {table} WHERE status = '{status}' AND lease < {now_ms}"
            )
        ),
    ]


def _accepted(platforms: Sequence[Platform]) -> list[tuple[str, str]]:
    """The channel and the key of each message that was accepted. An edit stands in the place of what it changes."""
    return [
        (platform.account, platform.key_of(each))
        for platform in platforms
        for each in platform.written.values()
        if each.accepted and not each.is_edit
    ]


def _stored(query: Query, platform: Platform, lines: Mapping[str, Line]) -> list[str]:
    """P2: what is stored is stored once, and was written."""
    found: Counter[str] = Counter(
        dict(
            query(
                f"SELECT message, count(*) FROM messages WHERE channel = '{platform.account}' AND kind = 'chat'"
                " AND files = '[]' GROUP BY 1"
            )
        )
    )
    del found[_DELETED]
    return [
        *(
            f"doubled: {text!r} is stored {count} times"
            for text, count in found.items()
            if count > 1 and text != _DELETED
        ),
        *(f"nobody wrote {text!r}" for text in found if text not in lines),
    ]


def _ended(query: Query) -> list[str]:
    """P6: everything has ended, outages too, and what died says why; no answer did because one send got no answer."""
    dead = "SELECT message_id FROM {} WHERE status = 'dead' AND ifnull(last_error, '') = ''"
    too_soon = (
        "SELECT message_id FROM responses WHERE status = 'dead' AND retry_count < 2"
        " AND last_error LIKE '%the message may have arrived'"
    )
    return [
        *(f"never ended: {row}" for row in query(OPEN)),
        *(f"the outage of {channel} never ended: {reason}" for channel, reason in query(OUTAGES)),
        *(f"message {id_} is dead without a reason" for (id_,) in query(dead.format("messages"))),
        *(f"response of {id_} is dead without a reason" for (id_,) in query(dead.format("responses"))),
        *(f"response of {id_} was given up after one send without an answer" for (id_,) in query(too_soon)),
    ]


def _answered(query: Query, platforms: Sequence[Platform], lines: Mapping[str, Line]) -> list[str]:
    """P5, P6: a completed message has its answers and no other, a dead one has one sentence."""
    problems = []
    accepted = {text for each in platforms for text, written in each.written.items() if written.accepted}
    deleted = {text for each in platforms for text in each.deleted}
    answers: dict[str, list[str]] = defaultdict(list)
    asked = {f"{line.button.removesuffix('yes')}?" for line in lines.values() if line.button}  # of the first of a batch
    texts = "message_id NOT IN (SELECT message_id FROM messages WHERE files != '[]')"  # else see `sent_files`
    notices = (*asked, STILL_WORKING, NOT_SENT)  # or cards; the last one only where all before it is dead
    living = f"SELECT message_id FROM responses WHERE status != 'dead' AND message != '{NOT_SENT}'"
    arrives = {id_ for (id_,) in query(living)}
    for message_id, text in query(f"SELECT message_id, message FROM responses WHERE {_SAID} AND {texts} ORDER BY id"):
        is_notice = text in notices and not (text == NOT_SENT and message_id in arrives)
        if not is_notice and not message_id.startswith("proactive_"):
            answers[message_id].append(text.removesuffix(f"\n\n{BEGUN_ANEW}"))
    inner = "kind = 'system' OR channel IN ('internal', 'chatroom')"  # what no person wrote
    for message_id, text, status, is_inner in query(
        f"SELECT message_id, message, status, {inner} FROM messages WHERE trigger = 1 AND files = '[]'"
    ):
        got = answers.pop(message_id, [])
        line = Line(0, text, (), is_loose=True) if is_inner else lines.get(text)
        if line is None:
            problems.append(f"{text!r} is nobody's line")
        elif status == "cancelled":
            is_promised = text in accepted and text not in deleted
            problems += [f"{text!r} was accepted and is cancelled"] if is_promised else []
            problems += [f"{text!r} is cancelled, and its sender got {got}"] if got else []
        elif line.is_loose:
            problems += [f"{text!r} got {said!r} twice" for said, count in Counter(got).items() if count > 1]
        elif status == "completed" and got != list(line.answers or ()):
            problems.append(f"{text!r} is completed with the answers {got}")
        elif status == "dead" and got != [APOLOGY]:
            problems.append(f"{text!r} is dead, and its sender got {got}")
        elif status == "dead" and line.answers is not None:
            problems.append(f"{text!r} is dead, and its agent would have answered")
    return [*problems, *(f"an answer to nothing: {id_} {texts}" for id_, texts in answers.items())]


def _deleted(query: Query, platforms: Sequence[Platform]) -> list[str]:
    """What was deleted before a turn took it is answered by nobody. The instants are of a clock that nobody set."""
    begun = _begun(query)
    return [
        f"{text!r} was deleted, and a turn took it {late_ms} ms later"
        for each in platforms
        for text, told in each.deleted.items()
        if told.accepted and (late_ms := _late_ms(begun.get(text), told)) > 0
    ]


def _edited(query: Query, platforms: Sequence[Platform]) -> list[str]:
    """A turn that begins after an edit has the edited text. By the same clock."""
    begun = _begun(query)
    return [
        f"{before.text!r} was made {after.text!r}, and a turn took it {late_ms} ms later"
        for each in platforms
        for after in each.written.values()
        if after.is_edit and after.accepted
        for before in each.written.values()
        if before.number == after.number and not before.is_edit
        if (late_ms := _late_ms(begun.get(before.text), after)) > 0
    ]


def _begun(query: Query) -> dict[str, int]:
    """When a turn took each text first."""
    begun: dict[str, int] = {}
    for at_ms, data in query("SELECT created_at, data FROM events WHERE type = 'chain_step_start' ORDER BY id DESC"):
        begun |= dict.fromkeys(json.loads(data)["batch"], at_ms)
    found = query("SELECT message, message_id FROM messages WHERE trigger = 1")
    return {text: begun[message_id] for text, message_id in found if message_id in begun}


def _late_ms(begun_ms: int | None, told: Written) -> int:
    """How much later a turn began than we had accepted what was told."""
    return 0 if begun_ms is None else begun_ms - BEGAN_MS - int(told.answered_s * 1000)


def _apart(platforms: Sequence[Platform]) -> list[str]:
    """P8, P10: what belongs to a chat or a topic is seen nowhere else. Each text carries the mark of its place."""
    seen = [  # but by the owner, whom cards show what belongs to others
        (each.mark, " ".join((each.text, *each.files)))
        for platform in platforms
        for each in platform.arrivals
        if each.chat != OWNER.chat
    ]
    places = {each.place.mark for platform in platforms for each in platform.written.values()}
    return row_promises.private(seen, {f"{each}n": {each} for each in places})


def _sent(query: Query, platform: Platform) -> list[str]:
    """P7, P8: what is acknowledged arrived, a second arrival has a recorded doubt, and each place is in order.

    Of a busy group, people get their answers in turns (``shared/queue/platforms/fair_heads.py``). What an owner is told
    has marks of its own, which the platform shows in another form.
    """
    found = query(
        "SELECT id, platform_id, message, status FROM responses"
        f" WHERE channel = '{platform.account}' AND platform_id != '{OWNER.chat}' AND {_SAID} ORDER BY id"
    )
    arrivals = [each for each in platform.arrivals if each.chat != OWNER.chat]
    taken = Counter((each.chat, each.text) for each in arrivals)
    problems, rank = promises.arrivals(found, taken, Counter(dict(query(DOUBTS))))
    last: dict[str, int] = defaultdict(int)
    for each in arrivals:
        place = rank.get((each.chat, each.text), 0)
        if place and place < last[each.mark]:
            problems.append(f"{each.mark} got response {place} after {last[each.mark]}")
        last[each.mark] = max(last[each.mark], place)
    return problems
