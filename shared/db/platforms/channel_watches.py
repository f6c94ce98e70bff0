"""What the last look at a platform found about the way in: does it send our bot's events to us?

::

    (no row), well <──look──> deaf
"""

from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import insert_into, rows, scalar

DeafCode = Literal["not_registered", "elsewhere", "failing", "backlog", "kinds_missing"]
_NEWEST = 5_000  # rows of each table in which the newest event of a channel is looked for


class ChannelWatch(NamedTuple):
    """A row of ``channel_watches``; all instants in ms UTC.

    Attributes:
        looked_at: the last look that got an answer.
        url: the address that was registered then, without a secret; None: none was.
        known_url: the registered address under which events came in; None: it is not known yet.
        backlog: the events that waited at the platform; None where it does not tell.
        code: why it is deaf; None: it is well.
        reason: the same for people.
        since: when it came to its state.
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


_PUT = insert_into("channel_watches", ChannelWatch._fields).replace("INSERT INTO", "INSERT OR REPLACE INTO", 1)


def get(conn: apsw.Connection, channel: str) -> ChannelWatch | None:
    """The last look at the channel, or None."""
    return every(conn).get(channel)


def every(conn: apsw.Connection) -> dict[str, ChannelWatch]:
    """The last looks, by channel."""
    found = rows(
        conn,
        """
        SELECT channel, looked_at, url, known_url, backlog, state, code, reason, since
          FROM channel_watches
         ORDER BY channel
        """,
    )
    return {row[0]: ChannelWatch(*row) for row in found}


def deaf(conn: apsw.Connection) -> list[ChannelWatch]:
    """The channels that receive nothing, by name."""
    return [watch for watch in every(conn).values() if watch.state == "deaf"]


def put(conn: apsw.Connection, watch: ChannelWatch) -> None:
    """Keep what a look found. One process looks, so nobody's newer look is lost."""
    conn.execute(_PUT, watch)


def last_event_at(conn: apsw.Connection, channel: str) -> int | None:
    """When the newest event of the channel came in, as far as the newest rows tell; None: they tell of none."""
    found: int | None = scalar(
        conn,
        """
        SELECT max(created_at)
          FROM (SELECT created_at
                  FROM (SELECT channel, event_key, created_at FROM messages ORDER BY id DESC LIMIT :newest)
                 WHERE channel = :channel AND event_key IS NOT NULL
                 UNION ALL
                SELECT created_at
                  FROM (SELECT channel, created_at FROM dropped ORDER BY id DESC LIMIT :newest)
                 WHERE channel = :channel
                 UNION ALL
                SELECT created_at
                  FROM (SELECT channel, created_at FROM event_keys ORDER BY created_at DESC LIMIT :newest)
                 WHERE channel = :channel)
        """,
        {"channel": channel, "newest": _NEWEST},
    )
    return found
