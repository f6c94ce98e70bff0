"""Endings: an empty response for a message that gets no answer, where somebody is shown that one is awaited.

TinyAGI's channel clients show "typing" for each message that they sent, until a response names its id, for ten minutes
at most. So a message whose turn answered another one of its batch, and a cancelled message, get a response without a
text: the client sends nothing, and stops typing. Discord shows "thinking" under a command in the same way, which
``deliver`` takes away. Where nobody waits, nothing is stored.

``look`` finds the waits that nothing ended, which is rare: a turn that takes longer than the platform lets a command
wait, an answer that could not be sent, an end that no code told of. The rows tell all of it, so a restart or a kill
changes nothing.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import apsw

from shared.channels import registry
from shared.core import content
from shared.core.content import ResponseContent
from shared.db.engine.connection import rows
from shared.db.queue import mailbox, polled_channels, responses
from shared.db.queue.message_row import Message
from shared.db.queue.responses import NewResponse
from shared.queue import replies

LOOK_AT = 5_000  # messages, the newest ones
_LAST_MINUTES_MS = 2 * 60_000  # a sweep and a delivery fit into it
LONGEST_WAIT_MS = 60 * 60_000
"""A command that is older is not looked at. Until then its answers are kept, whatever became of it."""

STILL_WORKING = "This takes longer than Discord lets an answer wait. It comes as a message of its own when it is ready."
NOWHERE_TO_ANSWER = (
    "This takes longer than Discord lets an answer wait, and I am no member here. Please ask me again in a direct chat."
)
NOT_SENT = "My answer could not be sent. The operator of this bot can see why."

Verdict = Literal["leave", "tell", "end", "apologise"]


def enqueue(conn: apsw.Connection, unanswered: Iterable[Message], *, now_ms: int) -> None:
    """Store an empty response for each of the messages that a polling client waits for."""
    endings = [
        _ending(each, ends_wait=shows_wait)
        for each in unanswered
        if (shows_wait := is_shown_as_waiting(each, now_ms=now_ms)) or is_waited_for(conn, each)
    ]
    responses.enqueue_many(conn, endings, now_ms=now_ms)


def _ending(message: Message, *, ends_wait: bool) -> NewResponse:
    made = replies.response(message, "", agent=message.agent, session_id=message.session_id)
    if not ends_wait:
        return made
    carried: ResponseContent = content.decode(made.content)
    carried["ends_wait"] = True
    return made._replace(content=content.encode(carried))


def enqueue_for(conn: apsw.Connection, row_id: int, *, now_ms: int) -> None:
    """The same for the message in row *row_id*, if there is one."""
    found = mailbox.get(conn, row_id)
    if found is not None:
        enqueue(conn, [found.message], now_ms=now_ms)


def is_shown_as_waiting(message: Message, *, now_ms: int) -> bool:
    """Whether the message's platform shows that it awaits an answer, and still can be told that none comes."""
    wait_ms = registry.traits(message.channel).wait_ms
    is_own = bool(message.content.get("own_answer")) and "context" in message.content
    return wait_ms is not None and is_own and now_ms - message.created_at < wait_ms


def is_waited_for(conn: apsw.Connection, message: Message) -> bool:
    """Whether a person sent *message*, and the answer is a response that a client fetches."""
    is_delivered_here = message.chat_id is not None and registry.is_adapted(message.channel)
    if message.from_agent is not None or "team" in message.content or is_delivered_here:
        return False
    return polled_channels.is_polled(conn, message.channel)


# -- waits that nothing ended ----------------------------------------------------------------------------------------


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
       AND (m.status <> 'dead' OR EXISTS (SELECT 1 FROM responses r WHERE r.in_reply_to = m.id))  -- else pruned
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
    return rows(conn, _FIND, {"look_at": LOOK_AT, "since": now_ms - LONGEST_WAIT_MS})


def _do(conn: apsw.Connection, verdict: Verdict, message: Message, *, now_ms: int) -> None:
    if verdict == "end":
        enqueue(conn, [message], now_ms=now_ms)
        return
    is_there = message.content.get("context", {}).get("bot_is_there", True)
    late = STILL_WORKING if is_there else NOWHERE_TO_ANSWER
    text = NOT_SENT if verdict == "apologise" else late
    told = replies.response(message, text, agent=message.agent, session_id=message.session_id)
    responses.enqueue(conn, told, now_ms=now_ms)
