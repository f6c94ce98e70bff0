"""A person stops what an agent does for them: first what waits of theirs in the session, then the turn that runs there.

The order means that nothing of theirs begins when the turn ends. Other people's messages of that turn are pending
again.
The caller owns the transaction, and kicks ``dispatch``, which then ends the agent.
"""

from typing import NamedTuple

import apsw

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows
from shared.db.queue import claims
from shared.queue import cancellations

BY_SENDER = "its sender stopped it"
BY_ADMIN = "an admin stopped it"


class Stopped(NamedTuple):
    """How many messages waited, and how many a turn had."""

    waiting: int = 0
    running: int = 0


# What is planned for later waits for its instant and not for a turn.
WAITING = """
    SELECT id
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND status = 'pending' AND channel = :channel AND sender_id = :sender AND from_agent IS NULL
       AND series_id IS NULL AND (process_after IS NULL OR failure IS NOT NULL)
     ORDER BY id
"""
RUNNING = """
    SELECT id, channel = :channel AND sender_id IS :sender AND from_agent IS NULL
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND status = 'processing'
     ORDER BY id
"""
# An agent whose wiring was deleted still answers what waits for it.
WITHOUT_WIRING = """
    WITH there (agent, session_id) AS (
        SELECT agent, id
          FROM sessions
         WHERE chat_id = :chat
         UNION ALL
        SELECT s.agent, s.id
          FROM agents a
         CROSS JOIN sessions s ON s.agent = a.id AND ifnull(s.chat_id, 0) = 0 AND s.status = 'active'
    )
    SELECT agent, session_id
      FROM there
     WHERE NOT EXISTS (SELECT 1 FROM wirings w WHERE w.chat_id = :chat AND w.agent = there.agent)
       AND EXISTS (SELECT 1
                     FROM messages m
                    WHERE m.agent = there.agent AND m.session_id = there.session_id AND m.trigger = 1
                      AND (m.status = 'pending' OR m.status = 'processing')
                      AND m.channel = :channel AND m.sender_id = :sender
                      AND m.chat_id = :chat AND m.thread_id IS :thread AND m.from_agent IS NULL)
"""


def without_wiring(
    conn: apsw.Connection, chat_id: int, thread_id: str | None, *, channel: str, sender_id: str | None
) -> list[tuple[str, int]]:
    """The agents that still work for the person in this place though they are not wired there, and their sessions."""
    of = {"channel": channel, "sender": sender_id, "chat": chat_id, "thread": thread_id}
    return rows(conn, WITHOUT_WIRING, of)


def stop(
    conn: apsw.Connection,
    agent: str,
    session_id: int,
    *,
    channel: str,
    sender_id: str | None,
    is_admin: bool = False,
    now_ms: int,
) -> Stopped:
    """Cancel the person's messages in the session.

    Args:
        is_admin: the person may also stop a turn that runs for others alone.
    """
    of = {"agent": agent, "session": session_id, "channel": channel, "sender": sender_id}
    waiting = 0
    for (row,) in rows(conn, WAITING, of):
        waiting += _cancel(conn, row, BY_SENDER, now_ms)
    found = rows(conn, RUNNING, of)
    mine = [row for row, is_mine in found if is_mine]
    chosen, reason = (mine, BY_SENDER) if mine or not is_admin else ([row for row, _ in found], BY_ADMIN)
    return Stopped(waiting, sum(_cancel(conn, row, reason, now_ms) for row in chosen))


def stop_turn(conn: apsw.Connection, held: claims.Claim, *, reason: str, now_ms: int) -> Stopped:
    """Cancel all messages that ask for the turn, and first what else waits of their senders in its session."""
    waiting = 0
    for channel, sender in dict.fromkeys((each.channel, each.sender_id) for each in held.asked):
        of = {"agent": held.agent, "session": held.session_id, "channel": channel, "sender": sender}
        waiting += sum(_cancel(conn, row, reason, now_ms) for (row,) in rows(conn, WAITING, of))
    return Stopped(waiting, sum(_cancel(conn, each.id, reason, now_ms) for each in held.asked))


def _cancel(conn: apsw.Connection, row: int, reason: str, now_ms: int) -> bool:
    """Whether the message was cancelled. It may have ended: where its turn had spoken, its neighbours end with it."""
    try:
        cancellations.cancel(conn, row, reason=reason, now_ms=now_ms)
    except (NotFound, WrongState):
        return False
    return True
