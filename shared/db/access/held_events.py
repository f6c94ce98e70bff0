"""Events that are held for an approval. Their text is stored here alone, and only until the decision."""

from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows


class HeldEvent(NamedTuple):
    """A row of ``held``; *event* is JSON."""

    id: int
    approval_id: int
    channel: str
    event_key: str
    event: str
    created_at: int


def hold(
    conn: apsw.Connection, approval_id: int, channel: str, event_key: str, event_json: str, *, now_ms: int
) -> bool:
    """Hold the event for the approval with that row id. False: it is held already, as a redelivery is."""
    conn.execute(
        """
        INSERT INTO held (approval_id, channel, event_key, event, created_at)
        VALUES (:approval_id, :channel, :event_key, :event, :now)
        ON CONFLICT (approval_id, event_key) DO NOTHING
        """,
        {"approval_id": approval_id, "channel": channel, "event_key": event_key, "event": event_json, "now": now_ms},
    )
    return conn.changes() == 1


def of_approval(conn: apsw.Connection, approval_id: int) -> list[HeldEvent]:
    """The events that are held for the approval, oldest first."""
    found = rows(
        conn,
        """
        SELECT id, approval_id, channel, event_key, event, created_at
          FROM held
         WHERE approval_id = :approval_id
         ORDER BY id
        """,
        {"approval_id": approval_id},
    )
    return list(map(HeldEvent._make, found))


def forget(conn: apsw.Connection, approval_id: int) -> int:
    """Delete the events of a decided approval; how many there were."""
    conn.execute("DELETE FROM held WHERE approval_id = :approval_id", {"approval_id": approval_id})
    return conn.changes()
