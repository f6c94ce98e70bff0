"""Polled channels: those whose responses an outside client fetches."""

import apsw

from shared.db.engine.connection import scalar


def add(conn: apsw.Connection, channel: str, *, now_ms: int) -> None:
    """A client has fetched responses of the channel."""
    conn.execute(
        "INSERT INTO polled_channels (channel, created_at) VALUES (:channel, :now) ON CONFLICT DO NOTHING",
        {"channel": channel, "now": now_ms},
    )


def is_polled(conn: apsw.Connection, channel: str) -> bool:
    """Whether a client has ever fetched responses of the channel."""
    return bool(scalar(conn, "SELECT 1 FROM polled_channels WHERE channel = :channel", {"channel": channel}))
