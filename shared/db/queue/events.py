"""Events: every change of state, append-only; server-sent events, histories and Spark's streams read them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apsw

from shared.db.engine.connection import rows, scalar

_INSERT = """
    INSERT INTO events (type, message_id, response_id, agent, channel, session_id, data, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
"""

_PRUNE = """
    DELETE FROM events
     WHERE id IN (SELECT id
                    FROM (SELECT id, created_at
                            FROM events
                           WHERE id < (SELECT max(id) FROM events)
                           ORDER BY id
                           LIMIT :limit)
                   WHERE created_at < :cutoff)
"""


@dataclass(frozen=True, slots=True)
class Event:
    """A row of ``events``."""

    id: int
    type: str
    message_id: str | None
    response_id: int | None
    agent: str | None
    channel: str | None
    data: dict[str, Any]
    created_at: int


def append(
    conn: apsw.Connection,
    type_: str,
    *,
    now_ms: int,
    message_id: str | None = None,
    response_id: int | None = None,
    agent: str | None = None,
    channel: str | None = None,
    session_id: int | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Record that something happened, in the transaction in which it does. *data* holds facts, no secrets."""
    conn.execute(
        _INSERT,
        (type_, message_id, response_id, agent, channel, session_id, json.dumps(data) if data else "{}", now_ms),
    )


Row = tuple[str, str | None, int | None, str | None, str | None, int | None, str, int]
"""type, message_id, response_id, agent, channel, session_id, data as JSON, created_at"""


def append_many(conn: apsw.Connection, happened: Iterable[Row]) -> None:
    """The same for several at once, in order."""
    conn.executemany(_INSERT, happened)


def after(conn: apsw.Connection, last_id: int, *, limit: int) -> list[Event]:
    """Up to *limit* events that came after *last_id*, oldest first."""
    found = rows(
        conn,
        """
        SELECT id, type, message_id, response_id, agent, channel, data, created_at
          FROM events
         WHERE id > :last
         ORDER BY id
         LIMIT :limit
        """,
        {"last": last_id, "limit": limit},
    )
    return [
        Event(id_, type_, message_id, response_id, agent, channel, json.loads(data), created_at)
        for id_, type_, message_id, response_id, agent, channel, data, created_at in found
    ]


def latest_id(conn: apsw.Connection) -> int:
    """The newest event's id, 0 if there is none."""
    newest: int = scalar(conn, "SELECT ifnull(max(id), 0) FROM events")
    return newest


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Look at the *limit* oldest events, and delete those from before *older_than_ms*; how many. The newest stays.

    Ids have no other gaps; a reader that was away for longer than events are kept has missed those.
    """
    conn.execute(_PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()
