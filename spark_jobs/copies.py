"""One restored copy of a replica, as SQLite has it: its tables, their types, and a cursor that yields Arrow batches."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, StringType, StructField, TimestampType

from shared.core.errors import ConfigInvalid, PermanentError
from spark_jobs import copy_cursor
from spark_jobs.copy_cursor import CopyCursor

BATCH_ROWS = 16_384
INSTANTS = frozenset(
    {
        "deliver_after",
        "last_active",
        "lease",
        "not_before",
        "process_after",
        "since",
        "unsent_since",
        "until",
        "waits_since",
    }
)
"""Columns with instants whose names don't end in ``_at``."""

INTERNAL = ("sqlite_", "_litestream_")
_TYPES: Mapping[str, DataType] = {
    "INTEGER": LongType(),
    "INT": LongType(),
    "TEXT": StringType(),
    "REAL": DoubleType(),
    "BLOB": BinaryType(),
}
# A row of each type goes before the real rows: ADBC takes the types of a result from its first rows, and a column that
# begins with NULLs would be an integer. https://github.com/apache/arrow-adbc/issues/581
_SENTINELS: Mapping[DataType, str] = {
    LongType(): "0",
    TimestampType(): "0",
    StringType(): "''",
    DoubleType(): "0.0",
    BinaryType(): "x''",
}

TABLES = "SELECT name, wr, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
COLUMNS = 'SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid'
EVERY_COLUMN = """
    SELECT t.name, c.name, c.type, c."notnull", c.pk
      FROM pragma_table_list t
      JOIN pragma_table_xinfo(t.name) c
     WHERE t.schema = 'main' AND t.type = 'table' AND c.hidden <> 1
     ORDER BY t.name, c.cid
"""


class OptionInvalid(ConfigInvalid):
    """An option, a table or a column is not usable; the message lists the valid ones."""


class CopyUnreadable(PermanentError):
    """The restored file is damaged, or its schema is."""


@dataclass(frozen=True, slots=True)
class ReplicaTable:
    """The declaration of one table in SQLite.

    Args:
        rowid: a name that reads its rowid, or None in a WITHOUT ROWID table.
        key: the column that is the rowid under its own name (INTEGER PRIMARY KEY), if any.
        primary: the columns of the primary key, in its order.
    """

    name: str
    fields: tuple[StructField, ...]
    rowid: str | None
    key: str | None
    primary: tuple[str, ...] = ()


def _as_promised(column: pa.Array, field: pa.Field) -> pa.Array:
    """The column in the promised type: milliseconds become timestamps."""
    if not pa.types.is_timestamp(field.type):
        return column
    try:
        return column.cast(pa.timestamp("ms", "UTC")).cast(field.type)
    except pa.ArrowInvalid:
        raise OptionInvalid(
            f"column {field.name!r} has numbers that are no instants: read it with the option instants=millis"
        ) from None


def sentinel_row(types: Sequence[DataType]) -> str:
    """The SELECT that goes before the real rows, so that ADBC sees each type; :func:`typed_batches` drops its row."""
    return "SELECT " + ", ".join(f"{_SENTINELS[kind]} AS c{number}" for number, kind in enumerate(types))


def typed_batches(cursor: CopyCursor, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The result of a query that begins with :func:`sentinel_row`, in the promised types."""
    skip = 1
    for batch in cursor.batches():
        rows = batch.slice(skip)
        skip = 0
        if rows.num_rows:
            columns = [_as_promised(column, field) for column, field in zip(rows.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def describe(path: Path, name: str, *, has_timestamps: bool = True) -> ReplicaTable:
    """Read the declaration of table *name* in the database file *path*.

    Args:
        has_timestamps: instants are timestamps, and no longs.

    Raises:
        OptionInvalid: no such table (the message lists the tables), or one with unreliable types.
    """
    with open_copy(path) as cursor:
        tables = _tables(cursor)
        if name not in tables:
            raise OptionInvalid(f"the replica has no table {name!r}; its tables: {', '.join(sorted(tables))}")
        cursor.execute(COLUMNS, (name,))
        columns = cursor.fetchall()
    return _declared(name, *tables[name], columns, has_timestamps=has_timestamps)


def describe_all(path: Path, *, has_timestamps: bool = True) -> dict[str, ReplicaTable | str]:
    """The declarations of all tables by name; in place of one that :func:`describe` refuses, the reason."""
    with open_copy(path) as cursor:
        tables = _tables(cursor)
        cursor.execute(EVERY_COLUMN)
        columns: dict[str, list[Any]] = {name: [] for name in tables}
        for name, *column in cursor.fetchall():
            columns.get(name, []).append(column)
    found: dict[str, ReplicaTable | str] = {}
    for name, kind in tables.items():
        try:
            found[name] = _declared(name, *kind, columns[name], has_timestamps=has_timestamps)
        except OptionInvalid as error:
            found[name] = str(error)
    return found


def _tables(cursor: CopyCursor) -> dict[str, tuple[int, int]]:
    """Whether each table is WITHOUT ROWID, and STRICT, by name."""
    cursor.execute(TABLES)
    return {table: (wr, strict) for table, wr, strict in cursor.fetchall() if not table.startswith(INTERNAL)}


def _declared(
    name: str, without_rowid: int, strict: int, columns: Sequence[Sequence[Any]], *, has_timestamps: bool
) -> ReplicaTable:
    """The declaration; *columns* as COLUMNS gives them."""
    if not strict:
        raise OptionInvalid(f"table {name!r} is not STRICT: its columns take any type, so it has no schema")
    odd = [column for column, declared, *_ in columns if declared.upper() not in _TYPES]
    if odd:
        raise OptionInvalid(f"table {name!r} has columns of type ANY, which has no Spark type: {', '.join(odd)}")
    keys = sorted((pk, column, declared) for column, declared, _, pk in columns if pk)
    primary = tuple(column for _, column, _ in keys)
    key = primary[0] if not without_rowid and len(keys) == 1 and keys[0][2].upper() == "INTEGER" else None
    taken = {column.lower() for column, *_ in columns}
    free = [alias for alias in ("rowid", "_rowid_", "oid") if alias not in taken]
    rowid = None if without_rowid or not free else free[0]
    # In a STRICT table the columns of a primary key are NOT NULL without a declaration: sqlite.org/stricttables.html
    fields = tuple(
        StructField(column, _type_of(column, declared, has_timestamps), nullable=not (notnull or pk))
        for column, declared, notnull, pk in columns
    )
    return ReplicaTable(name, fields, rowid or (key and quoted(key)), key, primary)


def _type_of(column: str, declared: str, has_timestamps: bool) -> DataType:
    kind = _TYPES[declared.upper()]
    is_instant = column.endswith("_at") or column in INSTANTS
    return TimestampType() if has_timestamps and is_instant and kind == LongType() else kind


@contextmanager
def open_copy(path: Path) -> Iterator[CopyCursor]:
    """A cursor on a restored file, which never changes.

    Raises:
        CopyUnreadable: SQLite can't read the file.
    """
    uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
    try:
        with CopyCursor(uri, BATCH_ROWS) as cursor:
            yield cursor
    except copy_cursor.Error as error:
        reason = str(error).partition("\n")[0]  # the query follows
        raise CopyUnreadable(
            f"{path}, the copy of the replica on this host, can't be read ({reason}): delete it, and the next reader "
            f"restores it again"
        ) from None


@contextmanager
def open_both(old: Path, new: Path) -> Iterator[CopyCursor]:
    """A cursor on the later copy, with the earlier one attached as ``old``.

    Raises:
        CopyUnreadable: SQLite can't read one of them.
    """
    with open_copy(new) as cursor:
        cursor.execute("ATTACH ? AS old", (f"file:{quote(str(old))}?mode=ro&immutable=1",))
        yield cursor


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
