"""Channels that send nothing, because the platform refuses our token. A channel without a row sends.

::

    (no row) <──pause, resume──> paused ──postpone──> paused
"""

from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.queue import events


class ChannelPause(NamedTuple):
    """A row of ``channel_pauses``; both instants in ms UTC.

    Attributes:
        reason: what the platform said last; for people.
        check_at: when the platform is asked about the token again.
    """

    channel: str
    reason: str
    paused_at: int
    check_at: int


def every(conn: apsw.Connection) -> dict[str, ChannelPause]:
    """The paused channels, by name."""
    found = rows(conn, "SELECT channel, reason, paused_at, check_at FROM channel_pauses ORDER BY channel")
    return {row[0]: ChannelPause(*row) for row in found}


def pause(conn: apsw.Connection, channel: str, reason: str, *, check_at: int, now_ms: int) -> bool:
    """Pause the channel. False: it is paused already, and nothing changes."""
    conn.execute(
        """
        INSERT INTO channel_pauses (channel, reason, paused_at, check_at)
        VALUES (:channel, :reason, :now, :check_at)
        ON CONFLICT (channel) DO NOTHING
        """,
        {"channel": channel, "reason": reason, "now": now_ms, "check_at": check_at},
    )
    if conn.changes() == 0:
        return False
    events.append(conn, "channel_paused", now_ms=now_ms, channel=channel, data={"reason": reason})
    return True


def postpone(conn: apsw.Connection, channel: str, reason: str, *, check_at: int) -> None:
    """The token was not accepted, for this *reason*: ask again at *check_at*."""
    conn.execute(
        "UPDATE channel_pauses SET reason = :reason, check_at = :check_at WHERE channel = :channel",
        {"channel": channel, "reason": reason, "check_at": check_at},
    )


def resume(conn: apsw.Connection, channel: str, *, now_ms: int) -> bool:
    """The channel sends again. False: it was not paused."""
    conn.execute("DELETE FROM channel_pauses WHERE channel = :channel", {"channel": channel})
    if conn.changes() == 0:
        return False
    events.append(conn, "channel_resumed", now_ms=now_ms, channel=channel)
    return True


def check_now(conn: apsw.Connection, *, now_ms: int) -> None:
    """Ask each platform at once: a process that starts may have another token."""
    conn.execute("UPDATE channel_pauses SET check_at = :now WHERE check_at > :now", {"now": now_ms})
