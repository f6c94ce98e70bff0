"""Commands whose platform still shows that an answer is awaited: looked after until the platform's time for it is over.

An answer ends the wait, and so does an ending (``endings``). What is left is rare: a turn that takes longer than the
platform lets a command wait, an answer that could not be sent, an end that no code told of. The rows tell all of it, so
a restart or a kill changes nothing.
"""

from typing import Literal, NamedTuple

import apsw

from shared.channels import registry
from shared.db.engine.connection import rows
from shared.db.queue import mailbox, responses
from shared.db.queue.message_row import Message
from shared.queue import endings, replies

LOOK_AT = 5_000  # messages, the newest ones
_LAST_MINUTES_MS = 2 * 60_000  # a sweep and a delivery fit into it
_LONGEST_WAIT_MS = 60 * 60_000

STILL_WORKING = "This takes longer than Discord lets an answer wait. It comes as a message of its own when it is ready."
NOWHERE_TO_ANSWER = (
    "This takes longer than Discord lets an answer wait, and I am no member here. Please ask me again in a direct chat."
)
NOT_SENT = "My answer could not be sent. The operator of this bot can see why."

Verdict = Literal["leave", "tell", "end", "apologise"]


class WaitFacts(NamedTuple):
    """What the rows say about a command.

    Attributes:
        is_open: an agent may still answer it.
        responses: how many there are to it, of every agent.
        living: those of them that were sent, or will be.
    """

    is_open: bool
    age_ms: int
    responses: int
    living: int


def judge(facts: WaitFacts, wait_ms: int) -> Verdict:
    """What the wait needs. Pure.

    Args:
        wait_ms: how long the platform lets the command wait.
    """
    if facts.living or facts.age_ms >= wait_ms or facts.responses > 1:
        return "leave"
    if facts.is_open:
        return "tell" if facts.age_ms >= wait_ms - _LAST_MINUTES_MS and not facts.responses else "leave"
    return "apologise" if facts.responses else "end"


_FIND = """
    SELECT m.id, m.channel, m.created_at,
           EXISTS (SELECT 1
                     FROM messages s
                    WHERE s.channel = m.channel AND s.event_key = m.event_key
                      AND (s.status = 'pending' OR s.status = 'processing' OR s.status = 'paused')),
           (SELECT count(*)
              FROM messages s JOIN responses r ON r.in_reply_to = s.id
             WHERE s.channel = m.channel AND s.event_key = m.event_key AND r.content ->> '$.reaction' IS NULL),
           (SELECT count(*)
              FROM messages s JOIN responses r ON r.in_reply_to = s.id
             WHERE s.channel = m.channel AND s.event_key = m.event_key AND r.content ->> '$.reaction' IS NULL
               AND r.status <> 'dead')
      FROM messages m
     WHERE m.id > (SELECT max(id) FROM messages) - :look_at AND m.created_at > :since AND m.trigger = 1
       AND m.event_key IS NOT NULL AND m.content ->> '$.own_answer'
     ORDER BY m.id
"""


def look(conn: apsw.Connection, *, now_ms: int) -> int:
    """End or explain the waits that need it; how many. Each one once."""
    done, seen = 0, set[tuple[str, str | None]]()
    for row_id, channel, created_at, *facts in _found(conn, now_ms):
        wait_ms = registry.traits(channel).wait_ms
        verdict = judge(WaitFacts(bool(facts[0]), now_ms - created_at, *facts[1:]), wait_ms or 0)
        found = mailbox.get(conn, row_id) if verdict != "leave" else None
        if found is None or (key := (channel, found.message.platform_message_id)) in seen:
            continue
        seen.add(key)
        _do(conn, verdict, found.message, now_ms=now_ms)
        done += 1
    return done


def _found(conn: apsw.Connection, now_ms: int) -> list[tuple[int, str, int, int, int, int]]:
    return rows(conn, _FIND, {"look_at": LOOK_AT, "since": now_ms - _LONGEST_WAIT_MS})


def _do(conn: apsw.Connection, verdict: Verdict, message: Message, *, now_ms: int) -> None:
    if verdict == "end":
        endings.enqueue(conn, [message], now_ms=now_ms)
        return
    is_there = message.content.get("context", {}).get("bot_is_there", True)
    late = STILL_WORKING if is_there else NOWHERE_TO_ANSWER
    text = NOT_SENT if verdict == "apologise" else late
    told = replies.response(message, text, agent=message.agent, session_id=message.session_id)
    responses.enqueue(conn, told, now_ms=now_ms)
