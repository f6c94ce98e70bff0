"""Rows that no run has seen: an event tells of them, and neither the database nor the mart has them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from spark_jobs.mart.days import read_day
from spark_jobs.mart.manifest import MartManifest
from spark_jobs.mart.places import MartPlace
from spark_jobs.mart.source import PinnedTables, after
from spark_jobs.pushed_filters import Condition


class _Beginning(NamedTuple):
    """The event that each row of a table begins with.

    Attributes:
        named: the column of the event that names the row.
        key: the column of the row that is named.
    """

    event: str
    named: str
    key: str


BEGINNINGS: Mapping[str, _Beginning] = {
    "messages": _Beginning("message_received", "message_id", "message_id"),
    "responses": _Beginning("response_ready", "response_id", "id"),
}


def unseen_rows(place: MartPlace, source: PinnedTables, before: MartManifest | None, table: str) -> Counter[str]:
    """How many rows of *table* the events since the last run tell of that no run has seen, by the day of the event."""
    if not source.has(table) or not source.has("events"):
        return Counter()
    known = before.tables.get("events") if before else None
    events = _missing(source, table, known.last_id if known else 0)
    days = ((row[BEGINNINGS[table].named], row["created_at"].date().isoformat()) for row in events)
    if before is None:
        return Counter(day for _, day in days)
    told = dict(days)
    for key in _published(place, before, table) if told else ():
        told.pop(key, None)
    return Counter(told.values())


def _missing(source: PinnedTables, table: str, last_id: int) -> Iterator[dict[str, Any]]:
    """The events that begin a row which the database has no more."""
    begin = BEGINNINGS[table]
    sql = (
        f'"type" = ? AND NOT EXISTS (SELECT 1 FROM "{table}"'  # noqa: S608 - our own names
        f' WHERE "{table}"."{begin.key}" = "events"."{begin.named}")'
    )
    gone = Condition("type", sql, (begin.event,))
    for batch in source.read("events", after(last_id), gone, columns=[begin.named, "created_at"]):
        yield from batch.to_pylist()


def _published(place: MartPlace, before: MartManifest, table: str) -> Iterator[str | int]:
    """What names the rows of *table* that the mart has."""
    key = BEGINNINGS[table].key
    files = before.tables.get(table)
    for day in files.days.values() if files else ():
        for batch in read_day(place.files, place.base, day, [key]):
            yield from batch.column(key).to_pylist()
