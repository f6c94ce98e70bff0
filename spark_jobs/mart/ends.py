"""The final states of rows that were pruned or deleted since the last run: only their events have them.

Without them, the mart would keep old states: an open row would stay open, a dead row that was retried by hand would
stay dead, and a row that was deleted by hand would keep its text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from spark_jobs.mart.days import read_day
from spark_jobs.mart.manifest import MartManifest
from spark_jobs.mart.places import MartPlace
from spark_jobs.mart.source import PinnedTables, after, one_of


@dataclass(frozen=True, slots=True)
class _Endings:
    """How the rows of one table end.

    Args:
        key: the column that the events name.
        states: by the type of the event.
        deletion: the type of the event of a deletion by hand.
        emptied: the values of the columns with text in a deleted row.
        instants: by state: the columns with the instant of the end.
    """

    key: str
    named: str
    states: Mapping[str, str]
    deletion: str
    emptied: Mapping[str, str | None]
    instants: Mapping[str, str] = field(default_factory=dict)


ENDINGS: Mapping[str, _Endings] = {
    "messages": _Endings(
        "message_id",
        "message_id",
        {
            "chain_step_done": "completed",
            "message_dead": "dead",
            "message_cancelled": "cancelled",
            "message_deleted": "cancelled",
        },
        "message_deleted",
        {"message": "", "content": "{}", "files": "[]", "last_error": None},
        dict.fromkeys(("completed", "dead", "cancelled"), "updated_at"),
    ),
    "responses": _Endings(
        "id",
        "response_id",
        {"response_acked": "acked", "response_dead": "dead", "response_deleted": "deleted"},
        "response_deleted",
        {
            **{"message": "", "original_message": "", "content": "{}", "files": "[]", "metadata": "{}"},
            **{"last_error": None, "failure": None},
        },
        {"acked": "acked_at"},
    ),
}


class RowEnd(NamedTuple):
    """How a row ended; *is_deleted*: by hand, with its text; *changes*: what else the end changed, by column."""

    status: str
    at: datetime
    is_deleted: bool
    changes: Mapping[str, Any]


Ends = Mapping[Any, RowEnd]
"""By the key in the events: the id of a message, or the row of a response."""


def unseen_ends(source: PinnedTables, before: MartManifest, table: str) -> dict[Any, RowEnd]:
    """The rows of *table* that are no longer in the database, with the ends from events since the last run."""
    endings = ENDINGS[table]
    found: dict[Any, RowEnd] = {}
    since = after(before.tables["events"].last_id)
    columns = ["type", endings.named, "data", "created_at"]
    for batch in source.read("events", since, one_of("type", endings.states), columns=columns):
        for row in batch.to_pylist():
            status, is_deleted = endings.states[row["type"]], row["type"] == endings.deletion
            data = json.loads(row["data"])
            before_it = found.get(row[endings.named]) if is_deleted else None
            changes = before_it.changes if before_it else {} if is_deleted else _changes(status, data)
            batch = data.get("batch", ()) if table == "messages" else ()  # one event ends all messages of a turn
            end = RowEnd(status, row["created_at"], is_deleted, changes)
            found.update(dict.fromkeys([row[endings.named], *batch], end))
    for nobody in (None, ""):
        found.pop(nobody, None)
    for present in source.values(table, endings.key, one_of(endings.key, found)) if found else ():
        del found[present]
    return found


def _changes(status: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What the database writes into a row with this end. Events of earlier releases have no failure, so it stays."""
    if status != "dead":
        return {"failure": None, "last_error": data.get("reason")}
    names = {"reason": "last_error", "failure": "failure", "retry_count": "retry_count"}
    return {column: data[name] for name, column in names.items() if name in data}


def days_of_ends(
    place: MartPlace, before: MartManifest, table: str, ends: Ends, open_states: tuple[str, ...]
) -> set[str]:
    """The days of the mart whose rows :func:`as_ended` changes."""
    files = before.tables.get(table)
    days = files.days.items() if files and ends else ()
    columns = [ENDINGS[table].key, "status"]
    return {
        day
        for day, each in days
        for batch in read_day(place.files, place.base, each, columns)
        if any(_ends_of(table, batch, ends, open_states))
    }


def as_ended(table: str, rows: pa.RecordBatch, ends: Ends, open_states: tuple[str, ...]) -> pa.RecordBatch:
    """The rows of *table* as their events say that they ended."""
    found = _ends_of(table, rows, ends, open_states)
    if not any(found):
        return rows
    for number, column in enumerate(rows.schema):
        values = [
            value if end is None else _value(ENDINGS[table], column.name, value, end)
            for value, end in zip(rows.column(number).to_pylist(), found, strict=True)
        ]
        rows = rows.set_column(number, column, pa.array(values, column.type))
    return rows


def _ends_of(table: str, rows: pa.RecordBatch, ends: Ends, open_states: tuple[str, ...]) -> list[RowEnd | None]:
    keys, states = (rows.column(name).to_pylist() for name in (ENDINGS[table].key, "status"))
    return [_end_of(ends.get(key), state, open_states) for key, state in zip(keys, states, strict=True)]


def _end_of(end: RowEnd | None, state: str, open_states: tuple[str, ...]) -> RowEnd | None:
    if end is None or end.is_deleted or state in open_states:
        return end
    was_retried = state == "dead" and end.status != "dead"
    return end if was_retried else None


def _value(endings: _Endings, name: str, value: Any, end: RowEnd) -> Any:
    if name == "status":
        return end.status
    if name == endings.instants.get(end.status):
        return end.at
    if name == "recurrence":
        return None  # a row that carries its series on is not pruned
    value = end.changes.get(name, value)
    return endings.emptied.get(name, value) if end.is_deleted else value
