"""Reads one table of a restored copy in Spark: plans on the driver, reads Arrow batches in the workers."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_jobs import replicas
from spark_jobs.copies import ReplicaTable, open_copy, quoted, sentinel_row, typed_batches
from spark_jobs.copy_cursor import CopyCursor
from spark_jobs.fields import POSITION_NAMES
from spark_jobs.pushed_filters import Condition, as_condition
from spark_jobs.replicas import Pin

PARTITIONS_PER_CORE = 4
ROWS_PER_PARTITION = 10_000  # below this, one more task costs more than it saves
_PROBES = 64  # a gap that is narrower than this part of the ids makes no great difference


class RowRange(InputPartition):
    """The rows from *low* to *high*, both included; None means the whole table."""

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        super().__init__((low, high))
        self.low = low
        self.high = high


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
        with open_copy(replicas.ensure_local(self.pin, self.cache_dir)) as cursor:
            stretches = _stretches(cursor, quoted(self.table.name), self.table.rowid, *bounds)
        return row_ranges(stretches, self.requested)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of exactly the promised schema, with the rows that pass the pushed filters."""
        span = cast(RowRange, partition)
        schema = to_arrow_schema(self.columns, timezone="UTC")
        sentinel = sentinel_row([field.dataType for field in self.columns.fields])
        own = {field.name for field in self.table.fields}
        told = dict(zip(POSITION_NAMES, (self.pin.txid, self.pin.timestamp, self.pin.epoch), strict=True))
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


def row_ranges(stretches: Sequence[tuple[int, int]], requested: int | None = None) -> list[RowRange]:
    """The rows of the *stretches* in as many parts as *requested*; by default four a core, fewer for few rows.

    Args:
        stretches: the first and the last id of each, in order; between them are no rows.
    """
    count = sum(high - low + 1 for low, high in stretches)
    wished = requested or min(_cores() * PARTITIONS_PER_CORE, math.ceil(count / ROWS_PER_PARTITION))
    step = math.ceil(count / min(wished, count))
    starts: list[int] = []
    seen = 0
    for low, high in stretches:
        starts += range(low + -seen % step, high + 1, step)
        seen += high - low + 1
    ends = [*(start - 1 for start in starts[1:]), stretches[-1][1]]
    return [RowRange(*part) for part in zip(starts, ends, strict=True)]


def _stretches(cursor: CopyCursor, name: str, rowid: str, low: int, high: int) -> list[tuple[int, int]]:
    """The ids from *low* to *high* without the wide gaps, such as a restore leaves: else few parts had all rows."""
    step = math.ceil((high - low + 1) / _PROBES)
    for point in range(low + step, high, step) if step >= ROWS_PER_PARTITION else ():
        cursor.execute(
            f"SELECT (SELECT max({rowid}) FROM {name} WHERE {rowid} < ?), (SELECT min({rowid}) FROM {name}"  # noqa: S608 - quoted
            f" WHERE {rowid} >= ?)",
            (point, point),
        )
        ((before, behind),) = cursor.fetchall()
        if behind - before > step:
            left, right = (low, before), (behind, high)
            return [*_stretches(cursor, name, rowid, *left), *_stretches(cursor, name, rowid, *right)]
    return [(low, high)]


def _cores() -> int:
    return len(os.sched_getaffinity(0))
