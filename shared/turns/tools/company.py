"""Whether a turn reads only words of people that the agent knows, or of strangers too.

A stranger's text may ask an agent for anything. So it matters whether a session has read any: that decides what its
turns remember and what they may see. See ``shared.db.roster.memory_lines``.
"""

from collections.abc import Iterable

import apsw

from shared.conversation.access import people
from shared.core.accounts import platform_of
from shared.db.queue import sessions
from shared.db.queue.message_row import Message


def brings_strangers(conn: apsw.Connection, session_id: int, messages: Iterable[Message]) -> bool:
    """Whether one of the messages is the first one by a stranger in its session."""
    session = sessions.get(conn, session_id)
    return session is not None and session.strangers_at is None and has_strangers(conn, messages)


def has_strangers(conn: apsw.Connection, messages: Iterable[Message]) -> bool:
    """Whether one of the messages has words of a stranger, who has no role or membership for its agent."""
    return any(is_of_stranger(conn, each) for each in messages)


def is_of_stranger(conn: apsw.Connection, message: Message) -> bool:
    """Whether the message has words of somebody whom its agent does not know.

    A message over REST without a sender's id is the operator's own. These count as a stranger's words: a webhook; a
    forwarded text; a line of a room; a message of another agent whose session a stranger wrote in; a task of a
    conversation that a stranger wrote in, even before its session was reset.
    """
    if message.kind == "webhook" or message.content.get("is_forward"):
        return True
    if message.kind == "task" and sessions.had_strangers(conn, message.session_id):
        return True
    if message.from_agent is not None:
        return _is_of_agent_with_strangers(conn, message, message.from_agent)
    quoted = message.content.get("reply_to")
    if quoted is not None and "sender_id" in quoted and not quoted.get("is_self"):
        authors = [quoted["sender_id"], *([quoted["origin_id"]] if "origin_id" in quoted else [])]
        if not all(_knows(conn, message, each) for each in authors):
            return True
    if message.sender_id is None:
        return message.platform_message_id is not None  # a platform hides who it is
    return not _knows(conn, message, message.sender_id)


def administer(conn: apsw.Connection, agent: str, messages: Iterable[Message]) -> bool:
    """Whether all who wrote the messages are owners, or admins of the agent; an operator is."""
    return all(
        each.from_agent is None
        and (
            (each.sender_id is None and each.platform_message_id is None)
            or people.standing(conn, each.channel, each.sender_id).administers(agent)
        )
        for each in messages
    )


def _knows(conn: apsw.Connection, message: Message, sender_id: str | None) -> bool:
    return people.standing(conn, platform_of(message.channel), sender_id).knows(message.agent)


def _is_of_agent_with_strangers(conn: apsw.Connection, message: Message, from_agent: str) -> bool:
    if "team" in message.content:
        return True
    answers = message.content.get("is_answer")
    row = sessions.active(conn, from_agent, None, None) if answers else message.content.get("asker")
    asked_in = None if row is None else sessions.get(conn, row)
    return asked_in is None or asked_in.strangers_at is not None
