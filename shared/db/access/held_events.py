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


# Strangers can cause a bounded number of them only, so they are read one after the other.
_OF_MESSAGE = """
    SELECT id, approval_id, channel, event_key, event, created_at
      FROM held
     WHERE channel = :channel AND event ->> '$.platform_id' = :platform_id
       AND (event ->> '$.platform_message_id' = :message
            OR EXISTS (SELECT 1 FROM json_each(event, '$.pieces') WHERE value ->> '$.message_id' = :message))
     ORDER BY id
"""


def of_message(conn: apsw.Connection, channel: str, platform_id: str, platform_message_id: str) -> list[HeldEvent]:
    """The held events of this message of the platform, or with this piece of an album: one for each approval."""
    of = {"channel": channel, "platform_id": platform_id, "message": platform_message_id}
    return list(map(HeldEvent._make, rows(conn, _OF_MESSAGE, of)))


def change(conn: apsw.Connection, held_id: int, event_json: str | None) -> None:
    """Replace a held event; None: its sender deleted it."""
    if event_json is None:
        conn.execute("DELETE FROM held WHERE id = :id", {"id": held_id})
    else:
        conn.execute("UPDATE held SET event = :event WHERE id = :id", {"event": event_json, "id": held_id})


def forget(conn: apsw.Connection, approval_id: int) -> int:
    """Delete the events of a decided approval; how many there were."""
    conn.execute("DELETE FROM held WHERE approval_id = :approval_id", {"approval_id": approval_id})
    return conn.changes()
