"""``spark.read.format("litestream")``: the tables of a Litestream replica as DataFrames.

::

    replica = open_replica(session("report"), "s3://bucket/prefix?endpoint=http://127.0.0.1:9000")
    replica.table("messages", columns=["id", "channel"]).groupBy("channel").count().show()

or, after ``register(spark)``, the plain form, which needs only ``replica`` and ``table``::

    spark.read.format("litestream").option("replica", URL).option("table", "messages").load()

Options: ``replica`` the URL; ``table``; ``columns`` comma-separated (name them: Spark does not tell a Python source
which columns it needs, so without them even ``count()`` reads all); ``txid`` or ``timestamp`` of the past, ``epoch``
to stay in one history;
``partitions`` (default: four a core, fewer for small tables); ``cache_dir``; ``instants``: ``timestamp`` (default) or
``millis``; ``position`` an exact pin, as ``open_replica`` sets it; ``changes_from`` and ``changes_to``: the rows that
changed between two positions, in place of those at one (``spark_jobs/history/reader.py``).

- A whole read uses one position. Spark reads the schema in one process, plans in a second and reads in others; the pin
  is made with the schema and travels pickled with the source.
- The position that was read is in three more columns, which ``columns`` may name: ``_txid``, ``_committed_at`` (of the
  commit) and ``_epoch`` (empty where the replica has none). The log has it too: ``replica.pinned``.
- Types come from ``STRICT`` declarations: INTEGER long, TEXT string, REAL double, BLOB binary. Other tables are
  refused, because any of their rows may hold any type.
- Instants, which the database keeps as milliseconds UTC, are timestamps: the INTEGER columns whose names end in
  ``_at``, and those of ``INSTANTS``. With ``instants=millis`` they are longs, as stored.
- Rows are read as Arrow batches by ADBC from the restored file, split by ranges of rowid; a WITHOUT ROWID table is one
  partition. Comparisons with literals run inside SQLite, bound as parameters.
"""

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_jobs import replicas
from spark_jobs.copies import OptionInvalid, ReplicaTable, describe, open_copy, quoted, sentinel_row, typed_batches
from spark_jobs.replicas import Pin

if TYPE_CHECKING:
    from spark_jobs.history.reader import AskedChanges

PARTITIONS_PER_CORE = 4
ROWS_PER_PARTITION = 10_000  # below this, one more task costs more than it saves
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
MAX_IN = 500

_POSITION_NAMES = ("_txid", "_committed_at", "_epoch")
POSITION_FIELDS = tuple(StructField(name, StringType(), nullable=False) for name in _POSITION_NAMES)
"""Columns that tell the position of a read; in a read only where ``columns`` names them."""

_log = logging.getLogger("postroom.replicas")
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_CHANGES = ("changes_from", "changes_to")
_PAST = ("txid", "timestamp", "epoch", "position")
_OPTIONS = ("replica", "table", "columns", *_PAST, "partitions", "cache_dir", "instants")
_STREAM_OPTIONS = ("start", "max_rows", "on_hole", "on_new_epoch")
_OPERATORS: Mapping[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "IS",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter as SQL over one column, with its bound values."""

    column: str
    sql: str
    values: tuple[Any, ...] = ()


class RowRange(InputPartition):
    """The rows from *low* to *high*, both included; None means the whole table."""

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        super().__init__((low, high))
        self.low = low
        self.high = high


@dataclass(frozen=True, slots=True)
class Replica:
    """One position of a replica, restored on this host: its tables as DataFrames."""

    spark: SparkSession
    pin: Pin
    path: Path
    cache_dir: str | None

    def table(self, name: str, *, columns: Sequence[str] = (), partitions: int | None = None) -> DataFrame:
        """The table *name*; only *columns* are read, if given.

        Raises:
            OptionInvalid: no such table or column; the message lists the existing ones.
        """
        options = {"replica": self.pin.url, "position": self.pin.position, "table": name}
        if columns:
            options["columns"] = ",".join(columns)
        if partitions is not None:
            options["partitions"] = str(partitions)
        if self.cache_dir is not None:
            options["cache_dir"] = self.cache_dir
        choose_fields(describe(self.path, name), options.get("columns"))  # here no Java wraps the error
        return self.spark.read.format(LitestreamSource.name()).options(**options).load()


def register(spark: SparkSession) -> None:
    """Register the format, and allow filter pushdown, which Spark refuses by default with an error."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(LitestreamSource)


def open_replica(
    spark: SparkSession,
    replica: str | Pin,
    *,
    txid: str | None = None,
    timestamp: str | datetime | None = None,
    epoch: str | None = None,
    cache_dir: str | Path | None = None,
) -> Replica:
    """Pin a position of *replica* and restore it here; every table is read at this one position.

    Args:
        replica: its URL, or a pin made before.
        txid, timestamp, epoch: a position of the past; only with a URL.

    Raises:
        as :func:`spark_jobs.replicas.resolve` and :func:`spark_jobs.replicas.ensure_local`.
    """
    if isinstance(replica, Pin):
        pin, path = replica, replicas.ensure_local(replica, cache_dir)
    else:
        pin, path = replicas.pinned(replica, txid=txid, timestamp=timestamp, epoch=epoch, cache_dir=cache_dir)
    _tell(pin)
    register(spark)
    return Replica(spark, pin, path, None if cache_dir is None else str(Path(cache_dir).expanduser().absolute()))


def _tell(pin: Pin) -> None:
    _log.info("replica.pinned txid=%s timestamp=%s epoch=%s", pin.txid, pin.timestamp, pin.epoch or "-")


class LitestreamSource(DataSource):
    """The source behind ``format("litestream")``."""

    @classmethod
    def name(cls) -> str:
        return "litestream"

    def schema(self) -> StructType:
        columns = self.options.get("columns")
        if (asked := self._changes()) is not None:
            return StructType(list(chosen_fields(asked.table.name, asked.fields, columns)))
        return StructType(list(choose_fields(self._describe(), columns)))

    def reader(self, schema: StructType) -> DataSourceReader:
        self._refuse(_STREAM_OPTIONS, "is for spark.readStream; with spark.read leave it out")
        if (asked := self._changes()) is not None:
            _check_schema(schema, asked.fields, asked.table.name)
            return asked.reader(schema, self._partitions())
        table = self._describe()
        _check_schema(schema, readable_fields(table), table.name)
        return LitestreamReader(self._pin(), table, schema, self.options.get("cache_dir"), self._partitions())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from spark_jobs.streaming.reader import LitestreamStreamReader  # it reads with the readers of this module

        self._refuse((*_PAST, *_CHANGES), "is for spark.read; a stream begins where the option 'start' says")
        return LitestreamStreamReader(schema, self._required("replica"), self._required("table"), self.options)

    def _refuse(self, names: Sequence[str], why: str) -> None:
        for name in names:
            if name in self.options:
                raise OptionInvalid(f"the option {name!r} {why}")

    def _changes(self) -> "AskedChanges | None":
        """What was asked for where it is the rows between two positions, pinned once as with :meth:`_pin`."""
        self._refuse_unknown()
        if not any(name in self.options for name in _CHANGES):
            return None
        from spark_jobs.history.reader import AskedChanges  # it reads with the readers of this module

        self._refuse(("txid", "timestamp", "position"), "is for one position; changes_from and changes_to name two")
        known: AskedChanges | None = self.__dict__.get("_asked_changes")
        if known is None:
            url, begin, name = (self._required(each) for each in ("replica", "changes_from", "table"))
            end, epoch, cache_dir = (self.options.get(each) for each in ("changes_to", "epoch", "cache_dir"))
            known = AskedChanges.of(
                url, name, begin, end, epoch=epoch, cache_dir=cache_dir, has_timestamps=self._has_timestamps()
            )
            self.__dict__["_asked_changes"] = known
        return known

    def _refuse_unknown(self) -> None:
        known = (*_OPTIONS, *_CHANGES, *_STREAM_OPTIONS)
        unknown = sorted(set(map(str.lower, self.options)) - set(known))
        if unknown:
            raise OptionInvalid(f"unknown options: {', '.join(unknown)}; known: {', '.join(known)}")

    def _describe(self) -> ReplicaTable:
        path = replicas.ensure_local(self._pin(), self.options.get("cache_dir"))
        return describe(path, self._required("table"), has_timestamps=self._has_timestamps())

    def _has_timestamps(self) -> bool:
        wanted = self.options.get("instants", "timestamp")
        if wanted not in ("timestamp", "millis"):
            raise OptionInvalid(f"instants is {wanted!r}: write timestamp or millis")
        return wanted == "timestamp"

    def _pin(self) -> Pin:
        """The pin, resolved once and kept on the instance, which Spark pickles after it has read the schema."""
        known: Pin | None = self.__dict__.get("_pinned")
        if known is not None:
            return known
        url = self._required("replica")
        position = self.options.get("position")
        if position is not None:
            replicas.check_url(url)
            pin = Pin.at(url, position)
        else:
            pin, _ = replicas.pinned(
                url,
                txid=self.options.get("txid"),
                timestamp=self.options.get("timestamp"),
                epoch=self.options.get("epoch"),
                cache_dir=self.options.get("cache_dir"),
            )
            _tell(pin)
        self.__dict__["_pinned"] = pin
        return pin

    def _required(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            raise OptionInvalid(f'the option {name!r} is missing: .option("{name}", ...)')
        return value

    def _partitions(self) -> int | None:
        text = self.options.get("partitions")
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000:
            raise OptionInvalid(f"partitions is {text!r}: write a whole number from 1 to 10000")
        return int(text)


class LitestreamReader(DataSourceReader):
    """Plans on the driver and reads in the workers; it is pickled in between."""

    def __init__(
        self, pin: Pin, table: ReplicaTable, schema: StructType, cache_dir: str | None, partitions: int | None = None
    ) -> None:
        self.pin = pin
        self.table = table
        self.columns = schema
        self.cache_dir = cache_dir
        self.requested = partitions
        self.conditions: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters that SQLite answers exactly as Spark does; return the others."""
        types = {field.name: field.dataType for field in self.table.fields}
        for asked in filters:
            condition = as_condition(asked, types)
            if condition is None:
                yield asked
            else:
                self.conditions.append(condition)

    def partitions(self) -> Sequence[InputPartition]:
        if self.table.rowid is None:
            return [RowRange()]
        bounds = self.bounds()
        if bounds is None:
            return [RowRange(0, -1)]
        return row_ranges(*bounds, self.requested)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of exactly the promised schema, with the rows that pass the pushed filters."""
        span = cast(RowRange, partition)
        schema = to_arrow_schema(self.columns, timezone="UTC")
        sentinel = sentinel_row([field.dataType for field in self.columns.fields])
        own = {field.name for field in self.table.fields}
        told = dict(zip(_POSITION_NAMES, (self.pin.txid, self.pin.timestamp, self.pin.epoch), strict=True))
        names = self.columns.fieldNames()
        wanted = ", ".join(quoted(name) if name in own else "?" for name in names)
        where = [condition.sql for condition in self.conditions]
        values: list[Any] = [told[name] for name in names if name not in own]
        values += [value for condition in self.conditions for value in condition.values]
        if span.low is not None and self.table.rowid is not None:
            where.append(f"{self.table.rowid} BETWEEN ? AND ?")
            values += [span.low, span.high]
        query = f"{sentinel} UNION ALL SELECT {wanted} FROM {quoted(self.table.name)}"  # noqa: S608 - quoted
        if where:
            query += " WHERE " + " AND ".join(where)
        with open_copy(replicas.ensure_local(self.pin, self.cache_dir)) as cursor:
            cursor.execute(query, tuple(values))
            yield from typed_batches(cursor, schema)

    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest rowid that can pass the filters, or None if there are no rows."""
        about_key = [condition for condition in self.conditions if condition.column == self.table.key]
        where = "WHERE " + " AND ".join(condition.sql for condition in about_key) if about_key else ""
        values = tuple(value for condition in about_key for value in condition.values)
        name, rowid = quoted(self.table.name), self.table.rowid
        with open_copy(replicas.ensure_local(self.pin, self.cache_dir)) as cursor:
            ends = []
            for order in ("ASC", "DESC"):  # two look-ups at the ends; min() and max() in one query scan
                query = f"SELECT {rowid} FROM {name} {where} ORDER BY {rowid} {order} LIMIT 1"  # noqa: S608 - quoted
                cursor.execute(query, values)
                ends += [int(row[0]) for row in cursor.fetchall()]
        return (ends[0], ends[1]) if ends else None


def row_ranges(low: int, high: int, requested: int | None = None) -> list[RowRange]:
    """The rows from *low* to *high* in as many parts as *requested*; by default four a core, fewer for few rows."""
    span = high - low + 1
    wished = requested or min(_cores() * PARTITIONS_PER_CORE, math.ceil(span / ROWS_PER_PARTITION))
    step = math.ceil(span / min(wished, span))
    return [RowRange(start, min(start + step - 1, high)) for start in range(low, high + 1, step)]


def _check_schema(asked: StructType, fields: Sequence[StructField], table: str) -> None:
    """Refuse a schema that is not the replica's."""
    declared = {field.name: field.dataType for field in fields}
    for field in asked.fields:
        if declared.get(field.name) != field.dataType:
            raise OptionInvalid(
                f"column {field.name!r} {field.dataType.simpleString()} is not in table {table!r}: leave out "
                ".schema(...), because the schema comes from the replica, and choose with the option 'columns'"
            )


def readable_fields(table: ReplicaTable) -> tuple[StructField, ...]:
    """What ``columns`` may name: the table's own columns, and those of the position."""
    own = {field.name for field in table.fields}
    return (*table.fields, *(field for field in POSITION_FIELDS if field.name not in own))


def choose_fields(table: ReplicaTable, columns: str | None) -> tuple[StructField, ...]:
    """The fields that the comma-separated *columns* name, in that order; None means the table's own."""
    return table.fields if columns is None else chosen_fields(table.name, readable_fields(table), columns)


def chosen_fields(table: str, fields: Sequence[StructField], columns: str | None) -> tuple[StructField, ...]:
    """Those of *fields* that the comma-separated *columns* name, in that order; None means all."""
    if columns is None:
        return tuple(fields)
    known = {field.name: field for field in fields}
    names = [name.strip() for name in columns.split(",") if name.strip()]
    missing = [name for name in names if name not in known]
    if missing or not names or len(set(names)) < len(names):
        what = f"no columns {', '.join(missing)}" if missing else "been asked for no columns, or for one twice"
        raise OptionInvalid(f"table {table!r} has {what}; its columns: {', '.join(known)}")
    return tuple(known[name] for name in names)


def as_condition(asked: Filter, types: Mapping[str, DataType]) -> Condition | None:
    """*asked* as SQL, or None where SQLite could answer differently from Spark."""
    path: tuple[str, ...] = getattr(asked, "attribute", ())
    if len(path) != 1 or path[0] not in types:
        return None
    column, kind = path[0], types[path[0]]
    # Spark compares bytes and ignores the declared collation of the column.
    sql = quoted(column) + (" COLLATE BINARY" if isinstance(kind, StringType) else "")
    if isinstance(asked, IsNull):
        return Condition(column, f"{sql} IS NULL")
    if isinstance(asked, IsNotNull):
        return Condition(column, f"{sql} IS NOT NULL")
    if isinstance(asked, In):
        values = tuple(_stored(value, kind) for value in asked.value)
        if not 0 < len(values) <= MAX_IN or not all(_agrees(value, kind) for value in values):
            return None
        return Condition(column, f"{sql} IN ({', '.join('?' * len(values))})", values)
    operator = _OPERATORS.get(type(asked))
    if operator is None or not _agrees(value := _stored(cast(EqualTo, asked).value, kind), kind):
        return None
    return Condition(column, f"{sql} {operator} ?", (value,))


def _stored(value: object, kind: DataType) -> object:
    """A timestamp as the database has it; one between two milliseconds stays what it is, and so with Spark."""
    if not isinstance(kind, TimestampType) or not isinstance(value, datetime) or value.microsecond % 1000:
        return value
    at = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (at - _BEGIN) // timedelta(milliseconds=1)


def _agrees(value: object, kind: DataType) -> bool:
    """Whether *value* is a literal of the column's own type, so that no conversion changes the comparison."""
    if isinstance(kind, LongType | TimestampType):
        return type(value) is int and -(2**63) <= value < 2**63
    if isinstance(kind, DoubleType):
        return type(value) is float and not math.isnan(value)  # Spark's NaN equals itself; SQLite binds it as NULL
    return type(value) is (str if isinstance(kind, StringType) else bytes)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
