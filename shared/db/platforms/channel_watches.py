"""What the last look at a platform found about the way in: does it send our bot's events to us?

::

    (no row), well <──look──> deaf
"""

from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import insert_into, rows

DeafCode = Literal["not_registered", "elsewhere", "failing", "backlog", "kinds_missing"]


class ChannelWatch(NamedTuple):
    """A row of ``channel_watches``; all instants in ms UTC.

    Attributes:
        looked_at: the last look that got an answer.
        url: the address that was registered then, without a secret; None: none was.
        known_url: our own address: the one that we registered, or under which events came in; None: it is not known.
        backlog: the events that waited at the platform; None where it does not tell.
        code: why it is deaf; None: it is well.
        reason: the same for people.
        since: when it came to its state.
        heard_at: when an event came in to the registered address; None: none did since this is noted.
        mend: what an operator does about it; None: connects the channel again.
    """

    channel: str
    looked_at: int
    url: str | None
    known_url: str | None
    backlog: int | None
    state: Literal["well", "deaf"]
    code: DeafCode | None
    reason: str | None
    since: int
    heard_at: int | None = None
    mend: str | None = None


_PUT = insert_into("channel_watches", ChannelWatch._fields).replace("INSERT INTO", "INSERT OR REPLACE INTO", 1)


def get(conn: apsw.Connection, channel: str) -> ChannelWatch | None:
    """The last look at the channel, or None."""
    return every(conn).get(channel)


def every(conn: apsw.Connection) -> dict[str, ChannelWatch]:
    """The last looks, by channel."""
    found = rows(
        conn,
        """
        SELECT channel, looked_at, url, known_url, backlog, state, code, reason, since, heard_at, mend
          FROM channel_watches
         ORDER BY channel
        """,
    )
    return {row[0]: ChannelWatch(*row) for row in found}


def deaf(conn: apsw.Connection) -> list[ChannelWatch]:
    """The channels that receive nothing, by name."""
    return [watch for watch in every(conn).values() if watch.state == "deaf"]


def put(conn: apsw.Connection, watch: ChannelWatch) -> None:
    """Keep what a look found."""
    conn.execute(_PUT, watch)


_NOTE_EVENT = """
    UPDATE channel_watches
       SET heard_at = :now
     WHERE channel = :channel
       AND (heard_at IS NULL OR heard_at <= looked_at OR heard_at <= :now - 10000 OR state = 'deaf')
"""


def note_event(conn: apsw.Connection, channel: str, *, now_ms: int) -> ChannelWatch | None:
    """Note that an event came in to the registered address; the row, or None where it says so already.

    While the channel is well, the instant is written every ten seconds, and once after each look.
    """
    conn.execute(_NOTE_EVENT, {"channel": channel, "now": now_ms})
    return get(conn, channel) if conn.changes() else None


def note_ours(conn: apsw.Connection, channel: str, url: str, *, now_ms: int) -> None:
    """Keep the address that we have registered just now, without a secret."""
    last = get(conn, channel) or ChannelWatch(channel, now_ms, url, url, None, "well", None, None, now_ms)
    put(conn, last._replace(url=url, known_url=url))
