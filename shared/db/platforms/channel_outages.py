"""Outages of platforms: a channel that can't be reached, or that answers that it can't work, sends nothing but probes.

::

    (no row), ended <──begin, end──> open ──extend──> open

The row of the last outage stays: what fails again after its end, while others went out, fails for a reason of its own.
"""

from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.queue import events

OutageCode = Literal["unreachable", "server_error", "no_answer"]


class ChannelOutage(NamedTuple):
    """An open row of ``channel_outages``; both instants in ms UTC.

    Attributes:
        reason: of the last failure; for people.
        probe_at: when one call asks again.
    """

    channel: str
    began_at: int
    code: OutageCode
    reason: str
    probe_at: int


def every(conn: apsw.Connection) -> dict[str, ChannelOutage]:
    """The open outages, by channel."""
    found = rows(
        conn,
        """
        SELECT channel, began_at, code, reason, probe_at
          FROM channel_outages
         WHERE probe_at IS NOT NULL
         ORDER BY channel
        """,
    )
    return {row[0]: ChannelOutage(*row) for row in found}


def get(conn: apsw.Connection, channel: str) -> ChannelOutage | None:
    """The open outage of the channel, or None."""
    return every(conn).get(channel)


def begin(conn: apsw.Connection, outage: ChannelOutage, *, now_ms: int) -> bool:
    """The platform fails: send nothing before ``probe_at``. False: there is an open outage, and nothing changes."""
    conn.execute(
        """
        INSERT INTO channel_outages (channel, began_at, code, reason, probe_at)
        VALUES (:channel, :began_at, :code, :reason, :probe_at)
        ON CONFLICT (channel)
        DO UPDATE SET began_at = excluded.began_at, code = excluded.code, reason = excluded.reason,
                      probe_at = excluded.probe_at, ended_at = NULL
         WHERE ended_at IS NOT NULL
        """,
        outage._asdict(),
    )
    if conn.changes() == 0:
        return False
    events.append(conn, "channel_outage_began", now_ms=now_ms, channel=outage.channel, data={"reason": outage.reason})
    return True


def extend(conn: apsw.Connection, outage: ChannelOutage) -> None:
    """The platform still fails: ask again at the new ``probe_at``."""
    conn.execute(
        """
        UPDATE channel_outages
           SET began_at = :began_at, code = :code, reason = :reason, probe_at = :probe_at
         WHERE channel = :channel AND probe_at IS NOT NULL
        """,
        outage._asdict(),
    )


def end(conn: apsw.Connection, outage: ChannelOutage, *, now_ms: int) -> bool:
    """The probe went through. False: the outage was extended meanwhile, or is over, and nothing changes."""
    conn.execute(
        """
        UPDATE channel_outages
           SET probe_at = NULL, ended_at = :now
         WHERE channel = :channel AND probe_at = :probe_at
        """,
        {"channel": outage.channel, "probe_at": outage.probe_at, "now": now_ms},
    )
    if conn.changes() == 0:
        return False
    events.append(conn, "channel_outage_ended", now_ms=now_ms, channel=outage.channel)
    return True


def ended_since(conn: apsw.Connection, channel: str, *, since_ms: int) -> bool:
    """Whether the last outage of the channel is over, and ended after *since_ms*."""
    found = scalar(
        conn,
        "SELECT EXISTS (SELECT 1 FROM channel_outages WHERE channel = :channel AND ended_at > :since)",
        {"channel": channel, "since": since_ms},
    )
    return bool(found)


def probe_now(conn: apsw.Connection, *, now_ms: int) -> None:
    """Ask each platform at once: this machine may have another network."""
    conn.execute("UPDATE channel_outages SET probe_at = :now WHERE probe_at > :now", {"now": now_ms})
