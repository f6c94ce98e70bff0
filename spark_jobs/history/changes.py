"""What changed between two positions: counts for every table, and the changed rows of one, without Spark."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from spark_jobs.copies import open_both
from spark_jobs.fields import POSITION_FIELDS
from spark_jobs.history.comparison import CHANGE_TYPE, CHANGED, TableCounts, count, read_changes
from spark_jobs.history.matches import MatchedTable, match_tables
from spark_jobs.history.spans import Span


@dataclass(frozen=True, slots=True)
class TableDiff:
    """One table of a diff. *counts*: None where its rows can't be matched."""

    table: MatchedTable
    counts: TableCounts | None

    @property
    def is_changed(self) -> bool:
        return self.counts is not None and bool(self.counts.inserted + self.counts.changed + self.counts.deleted)


def diff(span: Span, names: Sequence[str] = ()) -> list[TableDiff]:
    """Count what changed in each table, or in the named ones.

    Raises:
        OptionInvalid: neither position has such a table.
    """
    tables = match_tables(span, names)
    with open_both(*span.paths()) as cursor:
        return [TableDiff(table, None if table.incomparable else count(cursor, table)) for table in tables]


def change_fields(table: MatchedTable) -> tuple[StructField, ...]:
    """The columns of changed rows: the kind of change, the table's own, and the position that has the change."""
    return (CHANGE_TYPE, CHANGED, *table.fields, *POSITION_FIELDS)


def changed_rows(span: Span, table: MatchedTable) -> Iterator[pa.RecordBatch]:
    """All changed rows of a table, in batches; of an update the old row comes right before the new one."""
    fields = StructType(list(change_fields(table)))
    return read_changes(*span.paths(), table, fields, span.new.pin)


def first_changes(span: Span, table: MatchedTable, limit: int) -> list[dict[str, Any]]:
    """Up to *limit* changes as people read them.

    Each is ``{"change": "insert" | "update" | "delete", "key": {column: value}, "old": {...}, "new": {...}}``; of an
    update, *old* and *new* hold the changed columns only.
    """
    found: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for batch in changed_rows(span, table):
        for row in batch.to_pylist():
            if row[CHANGE_TYPE.name] == "update_preimage":
                before = row
                continue
            found.append(_change(table, row, before))
            if len(found) == limit:
                return found
    return found


def _change(table: MatchedTable, row: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    kind = row[CHANGE_TYPE.name]
    names = [field.name for field in table.fields]
    key = {name: row[name] for name in table.key if name in row}
    if kind == "update_postimage":
        changed = [name for name in table.shared if before[name] != row[name]]
        return {
            "change": "update",
            "key": key,
            "old": {name: before[name] for name in changed},
            "new": {name: row[name] for name in changed},
        }
    whole = {name: row[name] for name in names if row[name] is not None and name not in key}
    is_gone = kind == "delete"
    return {"change": kind, "key": key, "old": whole if is_gone else {}, "new": {} if is_gone else whole}
