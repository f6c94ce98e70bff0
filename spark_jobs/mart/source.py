"""Reads the tables of one pinned position for ``publish``: Arrow batches by ADBC, without Spark."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_jobs.copies import BATCH_ROWS, OptionInvalid, ReplicaTable, describe, open_copy, quoted
from spark_jobs.pushed_filters import Condition
from spark_jobs.replicas import Pin, ensure_local
from spark_jobs.table_reader import LitestreamReader, RowRange

_THREADS = 2


class PinnedTables:
    """The tables of one position."""

    def __init__(self, pin: Pin, path: Path, cache_dir: str | None = None) -> None:
        self.pin = pin
        self._path, self._cache_dir = path, cache_dir
        self._known: dict[str, ReplicaTable] = {}

    def has(self, name: str) -> bool:
        """Whether there is such a table: a database of an earlier release lacks some."""
        try:
            self._describe(name)
        except OptionInvalid:
            return False
        return True

    def schema(self, name: str, left_out: Iterable[str] = ()) -> pa.Schema:
        """The Arrow schema of a table. Every column may be null: a later release may add and drop columns."""
        schema = to_arrow_schema(self._fields(name, frozenset(left_out)), timezone="UTC")
        return pa.schema([pa.field(field.name, field.type) for field in schema])

    def read(
        self, name: str, *conditions: Condition, columns: Sequence[str] = (), left_out: Iterable[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows that meet all *conditions*, in the order of the table."""
        fields = self._fields(name, frozenset(left_out))
        if columns:
            fields = StructType([fields[column] for column in columns])
        reader = LitestreamReader(self.pin, self._describe(name), fields, self._cache_dir)
        reader.conditions = list(conditions)
        for batch in read_ahead(reader):
            schema = pa.schema([pa.field(field.name, field.type) for field in batch.schema])
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def values(self, name: str, column: str, *conditions: Condition) -> list[Any]:
        """One column of the rows that meet all *conditions*."""
        return [value for batch in self.read(name, *conditions, columns=[column]) for value in batch[0].to_pylist()]

    def highest(self, name: str, column: str, *conditions: Condition) -> int | None:
        """The highest value of an INTEGER column, instants in ms UTC; None without rows. SQLite finds it alone."""
        query = f"SELECT max({quoted(column)}) FROM {quoted(name)}"  # noqa: S608 - quoted
        if conditions:
            query += " WHERE " + " AND ".join(condition.sql for condition in conditions)
        with open_copy(self._path) as cursor:
            cursor.execute(query, tuple(value for condition in conditions for value in condition.values))
            ((found,),) = cursor.fetchall()
        return None if found is None else int(found)

    def _fields(self, name: str, left_out: frozenset[str]) -> StructType:
        return StructType([field for field in self._describe(name).fields if field.name not in left_out])

    def _describe(self, name: str) -> ReplicaTable:
        if name not in self._known:
            self._known[name] = describe(self._path, name)
        return self._known[name]


def read_ahead(reader: LitestreamReader) -> Iterator[pa.RecordBatch]:
    """All batches of *reader*, in order, while threads read the next ones: SQLite and Arrow let other threads run.

    The ranges are small and few are ahead, so memory does not grow with the table.
    """
    waiting: deque[Future[list[pa.RecordBatch]]] = deque()
    with ThreadPoolExecutor(_THREADS) as threads:
        for part in ranges_of(reader, BATCH_ROWS):
            if part.low is None:  # of any size: it goes on batch by batch
                yield from reader.read(part)
                continue
            waiting.append(threads.submit(lambda each: list(reader.read(each)), part))
            if len(waiting) > _THREADS:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def ranges_of(reader: LitestreamReader, rows: int) -> Iterator[RowRange]:
    """At most *rows* rowids in each; one range where another column is filtered, whose index SQLite may use.

    Each begins at a row, so a gap between rowids costs nothing.
    """
    table = reader.table
    is_by_key = all(condition.column == table.key for condition in reader.conditions)
    if table.rowid is None or not is_by_key:
        yield RowRange()
    elif bounds := reader.bounds():
        start, high = bounds
        following = f"SELECT min({table.rowid}) FROM {quoted(table.name)} WHERE {table.rowid} > ?"  # noqa: S608 - quoted
        with open_copy(ensure_local(reader.pin, reader.cache_dir)) as cursor:
            while (end := min(start + rows - 1, high)) < high:
                yield RowRange(start, end)
                cursor.execute(following, (end,))
                ((start,),) = cursor.fetchall()
        yield RowRange(start, end)


def after(row_id: int) -> Condition:
    """Rows with a higher id."""
    return Condition("id", '"id" > ?', (row_id,))


def up_to(row_id: int) -> Condition:
    return Condition("id", '"id" <= ?', (row_id,))


def one_of(column: str, values: Iterable[Any]) -> Condition:
    """Rows whose *column* has one of these values."""
    sql = f'"{column}" IN (SELECT value FROM json_each(?))'  # noqa: S608 - our own names
    return Condition(column, sql, (json.dumps(sorted(values)),))


def later_than(column: str, at_ms: int) -> Condition:
    return Condition(column, f'"{column}" > ?', (at_ms,))


def not_later_than(column: str, at_ms: int) -> Condition:
    return Condition(column, f'"{column}" <= ?', (at_ms,))


def ms_of(at: datetime) -> int:
    """Milliseconds UTC of a timestamp as it is read."""
    return int(at.timestamp() * 1000 + 0.5)
