"""The SQL that compares one table of two restored copies: how many rows differ, and which.

SQLite walks one copy in the order of its rows and looks each up in the other by its key, so nothing is held in memory
and nothing is sorted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from spark_jobs.copies import open_both, quoted, sentinel_row, typed_batches
from spark_jobs.copy_cursor import CopyCursor
from spark_jobs.history.matches import MatchedTable
from spark_jobs.replicas import Pin

CHANGE_TYPE = StructField("_change_type", StringType(), nullable=False)
"""``insert``, ``update_preimage``, ``update_postimage`` or ``delete``, as in Spark's and Delta's change data."""

CHANGED = StructField("_changed", StringType(), nullable=True)
"""The names of the changed columns, with commas in between; of updates only."""


@dataclass(frozen=True, slots=True)
class TableCounts:
    """How many rows of a table differ.

    Args:
        before, after: all rows at both positions.
        changes: rows for each column whose value changed.
    """

    before: int
    after: int
    inserted: int
    changed: int
    deleted: int
    changes: dict[str, int]


def count(cursor: CopyCursor, table: MatchedTable) -> TableCounts:
    """Count the differences of a table, in one walk over each copy; *cursor* has both (``open_both``)."""
    lacks_new, lacks_old = _is_missing(table, "n"), _is_missing(table, "o")
    each = "".join(f", count(*) FILTER (WHERE NOT {lacks_old} AND {_differs(table, name)})" for name in table.shared)
    forward = (
        f"SELECT count(*), count(*) FILTER (WHERE {lacks_old}),"  # noqa: S608 - names are quoted
        f" count(*) FILTER (WHERE NOT {lacks_old} AND ({_any_differs(table)})){each}"
        f" FROM {_side(table, 'n')} LEFT JOIN {_side(table, 'o')} ON {_match(table)}"
    )
    backward = (
        f"SELECT count(*), count(*) FILTER (WHERE {lacks_new})"  # noqa: S608 - names are quoted
        f" FROM {_side(table, 'o')} LEFT JOIN {_side(table, 'n')} ON {_match(table)}"
    )
    cursor.execute(forward)
    after, inserted, changed, *by_column = cursor.fetchall()[0]
    cursor.execute(backward)
    before, deleted = cursor.fetchall()[0]
    changes = {name: rows for name, rows in zip(table.shared, by_column, strict=True) if rows}
    return TableCounts(before, after, inserted, changed, deleted, changes)


def read_changes(
    old: Path, new: Path, table: MatchedTable, fields: StructType, told: Pin, span: tuple[int, int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The changed rows as Arrow batches; of an update the old row comes right before the new one.

    Args:
        fields: which columns: those of *table*, and ``_change_type``, ``_changed``, ``_txid``, ``_committed_at``,
            ``_epoch``.
        told: the position of ``_txid`` and its like: the later one, which has all these changes.
        span: only rows with a rowid from the first to the last of these.
    """
    position = {"_txid": told.txid, "_committed_at": told.timestamp, "_epoch": told.epoch}
    names = fields.fieldNames()
    values = [position[name] for name in names if name in position]
    schema = to_arrow_schema(fields, timezone="UTC")
    sentinel = sentinel_row([field.dataType for field in fields.fields])
    parts = [_inserts(table, names, span), _updates(table, names, span), _deletes(table, names, span)]
    query = " UNION ALL ".join((sentinel, *parts))
    with open_both(old, new) as cursor:
        cursor.execute(query, tuple(values * len(parts)))
        yield from typed_batches(cursor, schema)


def bounds(old: Path, new: Path, table: MatchedTable) -> tuple[int, int] | None:
    """The lowest and the highest rowid of both copies; None if neither has a row."""
    ends = []
    with open_both(old, new) as cursor:
        for schema, declared in (("old", table.old), ("main", table.new)):
            for order in ("ASC", "DESC") if declared else ():
                rowid = declared.rowid if declared else None
                query = f"SELECT {rowid} FROM {schema}.{quoted(table.name)} ORDER BY 1 {order} LIMIT 1"  # noqa: S608
                cursor.execute(query)
                ends += [int(row[0]) for row in cursor.fetchall()]
    return (min(ends), max(ends)) if ends else None


def _inserts(table: MatchedTable, names: list[str], span: tuple[int, int] | None) -> str:
    wanted = ", ".join(_one_sided(table, "n", "insert", name) for name in names)
    missing = f"NOT EXISTS (SELECT 1 FROM {_side(table, 'o')} WHERE {_match(table)})"  # noqa: S608 - quoted
    return f"SELECT {wanted} FROM {_side(table, 'n')} WHERE {missing}{_range(table, 'n', span)}"  # noqa: S608 - quoted


def _deletes(table: MatchedTable, names: list[str], span: tuple[int, int] | None) -> str:
    wanted = ", ".join(_one_sided(table, "o", "delete", name) for name in names)
    missing = f"NOT EXISTS (SELECT 1 FROM {_side(table, 'n')} WHERE {_match(table)})"  # noqa: S608 - quoted
    return f"SELECT {wanted} FROM {_side(table, 'o')} WHERE {missing}{_range(table, 'o', span)}"  # noqa: S608 - quoted


def _updates(table: MatchedTable, names: list[str], span: tuple[int, int] | None) -> str:
    """Two rows for each changed one. CROSS JOIN fixes the order: walk the later copy, look up the earlier one."""
    wanted = ", ".join(_two_sided(table, name) for name in names)
    both = "(SELECT 0 AS is_new UNION ALL SELECT 1) AS image"
    return (
        f"SELECT {wanted} FROM {_side(table, 'n')} CROSS JOIN {_side(table, 'o')} CROSS JOIN {both}"  # noqa: S608
        f" WHERE {_match(table)} AND ({_any_differs(table)}){_range(table, 'n', span)}"
    )


def _one_sided(table: MatchedTable, side: str, change: str, name: str) -> str:
    if name == CHANGE_TYPE.name:
        return f"'{change}'"
    if name == CHANGED.name:
        return "NULL"
    return _value(table, side, name) or "?"


def _two_sided(table: MatchedTable, name: str) -> str:
    if name == CHANGE_TYPE.name:
        return "CASE image.is_new WHEN 1 THEN 'update_postimage' ELSE 'update_preimage' END"
    if name == CHANGED.name:
        marks = " || ".join(f"iif({_differs(table, each)}, {_text(each + ',')}, '')" for each in table.shared)
        return f"rtrim({marks}, ',')"
    new, old = _value(table, "n", name), _value(table, "o", name)
    return f"CASE image.is_new WHEN 1 THEN {new} ELSE {old} END" if new and old else "?"


def _value(table: MatchedTable, side: str, name: str) -> str | None:
    """The column of one side; NULL where that side lacks it; None where it is no column of the table."""
    if name not in {field.name for field in table.fields}:
        return None
    if name in (table.added if side == "o" else table.dropped):
        return "NULL"
    value = f"{side}.{quoted(name)}"
    return f"CAST({value} AS {_declared(table, name)})" if side == "o" and name in table.retyped else value


def _declared(table: MatchedTable, name: str) -> str:
    kind = next(field.dataType for field in table.fields if field.name == name)
    if isinstance(kind, LongType | TimestampType):
        return "INTEGER"
    return {"string": "TEXT", "double": "REAL"}.get(kind.simpleString(), "BLOB")


def _side(table: MatchedTable, side: str) -> str:
    """The table in the FROM clause; without rows where this copy has no such table."""
    declared, schema = (table.new, "main") if side == "n" else (table.old, "old")
    if declared is not None:
        return f"{schema}.{quoted(table.name)} AS {side}"
    names = dict.fromkeys((*(field.name for field in table.fields), *table.key))
    return f"(SELECT {', '.join(f'NULL AS {quoted(name)}' for name in names)} WHERE 0) AS {side}"


def _match(table: MatchedTable) -> str:
    """The condition; ``=`` for the key, whose columns are never NULL."""
    same = [f"n.{quoted(name)} = o.{quoted(name)}" for name in table.key]
    return " AND ".join((*same, *(f"n.{quoted(name)} IS o.{quoted(name)}" for name in table.also)))


def _is_missing(table: MatchedTable, side: str) -> str:
    """No row of the other copy was found; the columns of a key are never NULL."""
    return f"{side}.{quoted(table.key[0])} IS NULL"


def _differs(table: MatchedTable, name: str) -> str:
    return f"n.{quoted(name)} IS NOT {_value(table, 'o', name)} COLLATE BINARY"


def _any_differs(table: MatchedTable) -> str:
    return " OR ".join(_differs(table, name) for name in table.shared) or "0"


def _range(table: MatchedTable, side: str, span: tuple[int, int] | None) -> str:
    rowid = table.rowids[0 if side == "o" else 1]
    return "" if span is None or rowid is None else f" AND {side}.{rowid} BETWEEN {span[0]:d} AND {span[1]:d}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
