"""Series of messages: the occurrences that ended, and those that follow them."""

import apsw

from shared.db import events
from shared.db.connection import rows
from shared.db.occurrence import Finished
from shared.errors import ClaimLost


def finished_occurrences(conn: apsw.Connection, *, limit: int) -> list[Finished]:
    """Occurrences that ended, in whatever way, and have not yet handed their series on."""
    found = rows(
        conn,
        """
        SELECT id, recurrence, timezone, misfire, scheduled_at
          FROM messages
         WHERE recurrence IS NOT NULL AND (status = 'completed' OR status = 'dead' OR status = 'cancelled')
         ORDER BY id
         LIMIT :limit
        """,
        {"limit": limit},
    )
    return [Finished(*row) for row in found]


def hand_on(conn: apsw.Connection, finished: Finished, *, due_ms: int, now_ms: int) -> str:
    """Insert the series' next occurrence; the finished one gives up the recurrence. The new message's id.

    One statement can't do both, but one transaction does: the caller's.
    """
    conn.execute("UPDATE messages SET recurrence = NULL WHERE id = :id AND recurrence IS NOT NULL", {"id": finished.id})
    if conn.changes() != 1:
        raise ClaimLost(f"message {finished.id} has already handed its series on")
    ((message_id,),) = rows(
        conn,
        """
        INSERT INTO messages (id_prefix, kind, channel, chat_id, platform_id, thread_id, sender, sender_id, message,
                              content, files, agent, from_agent, session_id, conversation_id, msg_type, urgency,
                              trigger, process_after, recurrence, timezone, misfire, scheduled_at, series_id,
                              created_at, updated_at)
        SELECT 'task', kind, channel, chat_id, platform_id, thread_id, sender, sender_id, message,
               content, files, agent, from_agent, session_id, conversation_id, msg_type, urgency,
               trigger, :due, :recurrence, timezone, misfire, :due, series_id,
               :now, :now
          FROM messages
         WHERE id = :id
        RETURNING message_id
        """,
        {"due": due_ms, "recurrence": finished.recurrence, "now": now_ms, "id": finished.id},
    )
    return str(message_id)


def end_series(conn: apsw.Connection, finished: Finished, reason: str, *, now_ms: int) -> None:
    """There is no next occurrence: the finished one gives up the recurrence, and an event says why."""
    ((message_id, agent, channel, session_id),) = rows(
        conn,
        "UPDATE messages SET recurrence = NULL WHERE id = :id RETURNING message_id, agent, channel, session_id",
        {"id": finished.id},
    )
    events.append(
        conn,
        "series_ended",
        now_ms=now_ms,
        message_id=message_id,
        agent=agent,
        channel=channel,
        session_id=session_id,
        data={"reason": reason},
    )
