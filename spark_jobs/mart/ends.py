"""What became of messages that the database has pruned or deleted since the last run: only their events tell it.

A row that was open when a run last saw it would otherwise wait in the mart for ever, and one that somebody deleted by
hand would stay dead, with its text.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from spark_jobs.mart.days import read_day
from spark_jobs.mart.manifest import MartManifest
from spark_jobs.mart.places import MartPlace
from spark_jobs.mart.source import PinnedTables, after, one_of

_STATUS: Mapping[str, str] = {
    "chain_step_done": "completed",
    "message_dead": "dead",
    "message_cancelled": "cancelled",
    "message_deleted": "cancelled",
}
_EMPTY: Mapping[str, str | None] = {"message": "", "content": "{}", "files": "[]", "last_error": None}


class MessageEnd(NamedTuple):
    """How a message ended; *is_deleted*: by hand, with its text."""

    status: str
    at: datetime
    is_deleted: bool


def unseen_ends(source: PinnedTables, before: MartManifest) -> dict[str, MessageEnd]:
    """The messages that events since the last run end, and that the database has no more, by their id."""
    found: dict[str, MessageEnd] = {}
    since = after(before.tables["events"].last_id)
    columns = ["type", "message_id", "data", "created_at"]
    for batch in source.read("events", since, one_of("type", _STATUS), columns=columns):
        for row in batch.to_pylist():
            end = MessageEnd(_STATUS[row["type"]], row["created_at"], row["type"] == "message_deleted")
            named = json.loads(row["data"]).get("batch", ()) if '"batch"' in row["data"] else ()
            found.update(dict.fromkeys((row["message_id"] or "", *named), end))
    found.pop("", None)
    for present in source.values("messages", "message_id", one_of("message_id", found)) if found else ():
        del found[present]
    return found


def days_of_ends(
    place: MartPlace, before: MartManifest, ends: Mapping[str, MessageEnd], open_states: tuple[str, ...]
) -> set[str]:
    """The days of the mart whose rows :func:`as_ended` changes."""
    table = before.tables.get("messages")
    days = table.days.items() if table and ends else ()
    columns = ["message_id", "status"]
    return {
        day
        for day, files in days
        for batch in read_day(place.files, place.base, files, columns)
        if any(_end_of(row, ends, open_states) for row in batch.to_pylist())
    }


def as_ended(rows: pa.RecordBatch, ends: Mapping[str, MessageEnd], open_states: tuple[str, ...]) -> pa.RecordBatch:
    """The rows of ``messages`` as their events say that they ended."""
    found = [_end_of(row, ends, open_states) for row in rows.select(["message_id", "status"]).to_pylist()]
    if not any(found):
        return rows
    for number, field in enumerate(rows.schema):
        values = [
            value if end is None else _value(field.name, value, end)
            for value, end in zip(rows.column(number).to_pylist(), found, strict=True)
        ]
        rows = rows.set_column(number, field, pa.array(values, field.type))
    return rows


def _end_of(row: Mapping[str, Any], ends: Mapping[str, MessageEnd], open_states: tuple[str, ...]) -> MessageEnd | None:
    end = ends.get(row["message_id"])
    return end if end and (end.is_deleted or row["status"] in open_states) else None


def _value(name: str, value: Any, end: MessageEnd) -> Any:
    if name == "status":
        return end.status
    if name == "updated_at":
        return end.at
    return _EMPTY.get(name, value) if end.is_deleted else value
