"""Dropped events, and why; never their text. The sender's name is for people, and is compared with nothing."""

import apsw

from shared.db.engine.connection import rows, scalar

_LONGEST_NAME = 100


def record(
    conn: apsw.Connection,
    *,
    channel: str,
    reason: str,
    detail: str = "",
    platform_id: str | None = None,
    sender_id: str | None = None,
    sender: str = "",
    platform_message_id: str | None = None,
    event_key: str | None = None,
    now_ms: int,
) -> None:
    """Record a dropped event; an event that has a record already keeps it."""
    conn.execute(
        """
        INSERT INTO dropped (channel, platform_id, sender_id, event_key, reason, detail, created_at,
                             platform_message_id, sender)
        VALUES (:channel, :platform_id, :sender_id, :event_key, :reason, :detail, :now, :platform_message_id, :sender)
        ON CONFLICT (channel, event_key) WHERE event_key IS NOT NULL DO NOTHING
        """,
        {
            "channel": channel,
            "platform_id": platform_id,
            "sender_id": sender_id,
            "event_key": event_key,
            "reason": reason,
            "detail": detail,
            "now": now_ms,
            "platform_message_id": platform_message_id,
            "sender": sender[:_LONGEST_NAME],
        },
    )


REASON = "SELECT reason, detail FROM dropped WHERE channel = :channel AND event_key = :event_key"


def reason(conn: apsw.Connection, channel: str, event_key: str | None) -> tuple[str, str] | None:
    """Why the event was dropped, and the detail; None: it was not."""
    found = rows(conn, REASON, {"channel": channel, "event_key": event_key})
    return found[0] if found else None


def last(conn: apsw.Connection, channel: str, reason: str) -> int | None:
    """The instant of the newest record of the channel with this reason; None: there is none."""
    at: int | None = scalar(conn, LAST, {"channel": channel, "reason": reason})
    return at


LAST = """
    SELECT (SELECT created_at FROM dropped WHERE reason = :reason AND channel = :channel ORDER BY id DESC LIMIT 1)
"""


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete up to *limit* records from before *older_than_ms*; how many."""
    conn.execute(
        """
        DELETE FROM dropped
         WHERE id IN (SELECT id FROM dropped WHERE created_at < :cutoff ORDER BY created_at LIMIT :limit)
        """,
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()
