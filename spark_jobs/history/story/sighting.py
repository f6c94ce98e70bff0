"""What one restored position has about a message: its row and all rows that belong to it, its events, and why it waits.

The position may have the schema of an earlier release: of each table only the columns that it has are read, and a
table that it lacks is left out.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import apsw

from shared.db.engine.connection import rows
from shared.db.views import why, why_sentences
from spark_jobs.history.spans import instant_of
from spark_jobs.replicas import Pin

RowKey = tuple[str, Any]
"""The table of a row, and its key there."""


class KnownMessage(NamedTuple):
    """Which message it is, from any position that has it."""

    message_id: str
    row: int
    channel: str
    platform_id: str | None
    platform_message_id: str | None
    event_key: str | None
    agent: str
    session_id: int
    created_at: int
    updated_at: int

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of the queries."""
        return self._asdict()


class PastEvent(NamedTuple):
    """An event of the message, or of one of its responses."""

    id: int
    at_ms: int
    type: str
    response_id: int | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One position, and what it has about the message.

    Args:
        epoch: ``meta.epoch`` of the database.
        at_ms: its instant, UTC, and not before any of its events.
        rows: those that belong to the message; of the message itself under ``("messages", its id)``.
        why: the sentence of ``emulator why`` at that instant; None: the position has no row of the message.
    """

    pin: Pin
    epoch: str
    at_ms: int
    rows: Mapping[RowKey, Mapping[str, Any]]
    events: Sequence[PastEvent]
    why: str | None

    @property
    def has_message(self) -> bool:
        return self.why is not None


_IDENTITY = """
    SELECT message_id, id, channel, platform_id, platform_message_id, event_key, agent, session_id, created_at,
           updated_at
      FROM messages
"""
_LIMIT = 1000

# Of each table: its key, the columns that tell something, and which rows belong to the message.
_MESSAGE = (
    "sender", "sender_id", "message", "files", "agent", "status", "trigger", "urgency", "retry_count", "failure",
    "last_error", "claimed_by", "lease", "process_after", "series_id", "spoken", "created_at", "updated_at",
)  # fmt: skip
_RESPONSE = (
    "message", "files", "agent", "status", "retry_count", "failure", "last_error", "claimed_by", "lease",
    "deliver_after", "platform_message_id", "created_at", "acked_at",
)  # fmt: skip
_RELATED: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "messages": (
        "id",
        _MESSAGE,
        "message_id = :message_id OR :platform_message_id IS NOT NULL AND channel = :channel"
        " AND platform_id IS :platform_id AND content ->> '$.about.message_id' = :platform_message_id",
    ),
    "responses": ("id", _RESPONSE, "message_id = :message_id"),
    "unknown_sends": (
        "response_id",
        ("part", "evidence", "message_id", "settled_at"),
        "response_id IN (SELECT id FROM responses WHERE message_id = :message_id)",
    ),
    "questions": (
        "question_id",
        ("question", "status", "answer", "answered_by", "expires_at"),
        "message_id = :message_id",
    ),
    "approvals": (
        "approval_id",
        ("kind", "title", "status", "decided_by", "expires_at", "created_at", "updated_at"),
        "approval_id IN (SELECT value FROM json_each(:approvals))"
        " OR session_id = :session_id AND created_at BETWEEN :created_at AND :updated_at",
    ),
    "held": ("id", ("created_at",), "channel = :channel AND event_key = :event_key"),
    "usage": (
        "id",
        ("agent", "model", "paid_by", "requests", "input", "output", "cost"),
        "EXISTS (SELECT 1 FROM json_each(messages) WHERE value = :message_id)",
    ),
    "schedule_runs": ("id", ("due_at", "started_at"), "message_id = :message_id"),
    "agent_messages": ("id", ("role", "sender", "content", "created_at"), "message_id = :message_id"),
}
_HELD = """
    SELECT a.approval_id
      FROM held h
      JOIN approvals a ON a.id = h.approval_id
     WHERE h.channel = :channel AND h.event_key = :event_key
"""
_EVENTS = """
    SELECT id, created_at, type, response_id, data
      FROM events
     WHERE message_id = :message_id OR :in_data AND instr(data, '"' || :message_id || '"') > 0
        OR response_id IN (SELECT value FROM json_each(:responses))
     ORDER BY id
     LIMIT 10000
"""


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    """A restored file, which never changes, as the views of ``shared/db`` take it."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(f"file:{quote(str(path))}?mode=ro&immutable=1", flags=flags)) as conn:
        yield conn


def find(conn: apsw.Connection, ref: str) -> list[KnownMessage]:
    """The message with the id *ref*, or those with that id on their platform, newest first."""
    found = rows(conn, f"{_IDENTITY} WHERE message_id = ?", (ref,))
    if not found:
        by_platform = f"{_IDENTITY} WHERE platform_message_id = :ref OR event_key = :ref ORDER BY id DESC LIMIT 10"
        found = rows(conn, by_platform, {"ref": ref})
    return [KnownMessage(*row) for row in found]


def events_of(
    conn: apsw.Connection, message_id: str, responses: Sequence[int] = (), *, in_data: bool = True
) -> list[PastEvent]:
    """The events of the message, or of one of its responses, oldest first; with *in_data* also those that name it."""
    values = {"message_id": message_id, "responses": json.dumps(list(responses)), "in_data": in_data}
    return [
        PastEvent(id_, at_ms, type_, response, json.loads(data))
        for id_, at_ms, type_, response, data in rows(conn, _EVENTS, values)
    ]


def approvals_before(path: Path, known: KnownMessage) -> set[str]:
    """The approvals for which the event of the message is held at this position; a decision ends that."""
    with opened(path) as conn:
        try:
            return {approval for (approval,) in rows(conn, _HELD, known.values)}
        except apsw.SQLError:  # the schema of an earlier release
            return set()


def sight(path: Path, pin: Pin, known: KnownMessage, approvals: Collection[str] = ()) -> Sighting:
    """What the position has about the message; *approvals*: ids of those that it was held for."""
    values = known.values | {"approvals": json.dumps(sorted(approvals))}
    with opened(path) as conn:
        epoch = rows(conn, "SELECT value FROM meta WHERE key = 'epoch'")
        related = {key: row for table in _RELATED for key, row in _related(conn, table, values)}
        responses = [key for table, key in related if table == "responses"]
        found = rows(conn, "SELECT id FROM messages WHERE message_id = ?", (known.message_id,))
        events = events_of(conn, known.message_id, responses)
        # A position is dated to the second: what it has has happened.
        at_ms = max([int(instant_of(pin).timestamp() * 1000), *(event.at_ms for event in events)])
        sentence = _why(conn, found[0][0], related, at_ms) if found else None
    return Sighting(pin, str(epoch[0][0]) if epoch else "", at_ms, related, events, sentence)


def _related(conn: apsw.Connection, table: str, values: Mapping[str, Any]) -> Iterator[tuple[RowKey, dict[str, Any]]]:
    key, columns, condition = _RELATED[table]
    there = {name for (name,) in rows(conn, "SELECT name FROM pragma_table_xinfo(?)", (table,))}
    names = [name for name in columns if name in there]
    if key not in there:
        return
    listed = ", ".join(f'"{name}"' for name in (key, *names))
    query = f"SELECT {listed} FROM {table} WHERE {condition} ORDER BY 1 LIMIT {_LIMIT}"  # noqa: S608 - ours
    try:
        found = rows(conn, query, values)
    except apsw.SQLError:  # an earlier schema lacks a column of the condition
        return
    for first, *others in found:
        yield (table, first), dict(zip(names, others, strict=True))


def _why(conn: apsw.Connection, row: int, related: Mapping[RowKey, Mapping[str, Any]], now_ms: int) -> str:
    """The sentence of ``emulator why``, as it was at that instant; else what the row says."""
    try:
        facts = why.message(conn, row, now_ms=now_ms)
    except apsw.SQLError:  # the schema of an earlier release
        facts = None
    if facts is not None:
        return why_sentences.of_message(facts, now_ms=now_ms).reason
    own = related.get(("messages", row), {})
    error = own.get("last_error")
    return f"It was {own.get('status')}" + (f", and its last attempt failed: {error}." if error else ".")
