"""Withdraws what was stored too late: the platform no longer waited, and its sender was told to send it again."""

import apsw

from shared.channels.base import Event
from shared.core.errors import WrongState
from shared.db.engine.connection import rows
from shared.db.queue import messages

REASON = "it was not stored in time, and its sender was notified"

# The platform shows that sentence, and no longer that an answer is awaited.
_NOTHING_IS_SHOWN = "UPDATE messages SET content = json_remove(content, '$.own_answer') WHERE id = :id"


def withdraw(conn: apsw.Connection, channel: str, events: tuple[Event, ...], *, now_ms: int) -> int:
    """Cancel the messages of these events, also those that a turn has; how many. One that is answered stays."""
    return sum(_withdraw(conn, channel, each, now_ms=now_ms) for each in events)


def _withdraw(conn: apsw.Connection, channel: str, event: Event, *, now_ms: int) -> int:
    key = {"channel": channel, "key": event.event_key}
    stored = rows(conn, "SELECT id FROM messages WHERE channel = :channel AND event_key = :key", key)
    cancelled = 0
    for (row_id,) in stored:
        try:
            messages.cancel(conn, row_id, reason=REASON, now_ms=now_ms)
        except WrongState:
            continue
        conn.execute(_NOTHING_IS_SHOWN, {"id": row_id})
        cancelled += 1
    return cancelled
