"""What a trace is made from: events with the public names of their sessions, and what a turn took from models."""

from collections.abc import Iterable
from typing import NamedTuple

import apsw

from shared.core import content
from shared.db.engine.connection import rows
from shared.db.queue.events import EventData


class TracedEvent(NamedTuple):
    """A row of ``events``. *session*: the public id of the session, for people and programs."""

    id: int
    type: str
    message_id: str | None
    response_id: int | None
    agent: str | None
    channel: str | None
    session: str | None
    data: EventData
    created_at: int


class TurnUsage(NamedTuple):
    """What the turns of a session took in a span of time; *turns* are the tokens of their claims."""

    turns: list[str]
    models: list[str]
    requests: int
    input: int
    output: int
    cache_read: int


class TracedCall(NamedTuple):
    """A call that did something. *key* is a hash."""

    key: str
    tool: str
    created_at: int


EVENTS = """
    SELECT e.id, e.type, e.message_id, e.response_id, e.agent, e.channel, s.session_id, e.data, e.created_at
      FROM events e
      LEFT JOIN sessions s ON s.id = e.session_id
     WHERE e.id > :after AND e.id <= :last
     ORDER BY e.id
     LIMIT :limit
"""
USAGE = """
    SELECT turn, model, requests, input, output, cache_read
      FROM usage
     WHERE session = :session AND created_at >= :start AND created_at <= :end
     ORDER BY id
"""
TOOL_CALLS = "SELECT key, tool, created_at FROM tool_calls WHERE turn = :turn ORDER BY created_at, key"
MESSAGE = "SELECT created_at FROM messages WHERE message_id = :id"
RESPONSE = "SELECT created_at FROM responses WHERE id = :id"


def events(conn: apsw.Connection, *, after: int, last: int, limit: int) -> list[TracedEvent]:
    """Up to *limit* events with an id above *after* and up to *last*, oldest first. All rows are read at once."""
    found = rows(conn, EVENTS, {"after": after, "last": last, "limit": limit})
    return [TracedEvent(*row)._replace(data=content.readable(row[7])) for row in found]


def usage(conn: apsw.Connection, session: str, *, start_ms: int, end_ms: int) -> TurnUsage:
    """What the session's turn took from models between the two instants. A session has one turn at a time."""
    found = rows(conn, USAGE, {"session": session, "start": start_ms, "end": end_ms})
    sums = [sum(each) for each in zip(*(row[2:] for row in found), strict=True)] or [0, 0, 0, 0]
    return TurnUsage(_once(row[0] for row in found), _once(row[1] for row in found), *sums)


def tool_calls(conn: apsw.Connection, turn: str) -> list[TracedCall]:
    """What the turn did with its tools, oldest first."""
    return [TracedCall(*row) for row in rows(conn, TOOL_CALLS, {"turn": turn})]


def made_at(conn: apsw.Connection, row: str | int) -> int | None:
    """When the message with this public id, or the response with this id, was stored; None: it is pruned."""
    found = rows(conn, MESSAGE if isinstance(row, str) else RESPONSE, {"id": row})
    return int(found[0][0]) if found else None


def _once(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
