"""Spark reads the rows that changed between two positions: the options ``changes_from`` and ``changes_to``.

The rows are those of Spark's change data: ``_change_type`` is ``insert``, ``delete``, ``update_preimage`` or
``update_postimage``. They are net changes: a row that came and went in between is not among them.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from spark_jobs import replicas
from spark_jobs.copies import OptionInvalid
from spark_jobs.history.changes import change_fields
from spark_jobs.history.comparison import bounds, read_changes
from spark_jobs.history.matches import MatchedTable, match_tables
from spark_jobs.history.spans import Span
from spark_jobs.replicas import Pin
from spark_jobs.table_reader import RowRange, row_ranges

_log = logging.getLogger("postroom.replicas")


@dataclass(frozen=True, slots=True)
class AskedChanges:
    """The rows of one table between two positions, which are restored on this host.

    Args:
        fields: the columns that they have.
    """

    span: Span
    table: MatchedTable
    fields: tuple[StructField, ...]
    cache_dir: str | None

    @classmethod
    def of(
        cls,
        url: str,
        name: str,
        begin: str,
        end: str | None,
        *,
        epoch: str | None = None,
        cache_dir: str | None = None,
        has_timestamps: bool = True,
    ) -> Self:
        """Pin both positions, tell them in the log, and match the rows of the table *name*.

        Raises:
            OptionInvalid: no such table, or its rows can't be matched.
            as :meth:`spark_jobs.history.spans.Span.of`.
        """
        span = Span.of(url, begin, end, epoch=epoch, cache_dir=cache_dir)
        (table,) = match_tables(span, [name], has_timestamps=has_timestamps)
        if table.incomparable:
            raise OptionInvalid(f"the changes of {name!r} can't be told: {table.incomparable}")
        for side, pin in (("from", span.old.pin), ("to", span.new.pin)):
            _log.info("replica.changes_%s txid=%s timestamp=%s epoch=%s", side, pin.txid, pin.timestamp, pin.epoch)
        return cls(span, table, change_fields(table), cache_dir)

    def reader(self, schema: StructType, partitions: int | None) -> "ChangesReader":
        """The reader of the columns of *schema*."""
        return ChangesReader(self.span, self.table, schema, self.cache_dir, partitions)


class ChangesReader(DataSourceReader):
    """Plans on the driver and reads in the workers; each host restores both positions once."""

    def __init__(
        self, span: Span, table: MatchedTable, columns: StructType, cache_dir: str | None, requested: int | None
    ) -> None:
        self.old, self.new = span.old.pin, span.new.pin
        self.table = table
        self.columns = columns
        self.cache_dir = cache_dir
        self.requested = requested

    def partitions(self) -> Sequence[InputPartition]:
        if not self.table.has_ranges:
            return [RowRange()]
        found = bounds(self._restore(self.old), self._restore(self.new), self.table)
        return [RowRange(0, -1)] if found is None else row_ranges([found], self.requested)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        low, high = partition.value
        span = None if low is None else (low, high)
        old, new = self._restore(self.old), self._restore(self.new)
        return read_changes(old, new, self.table, self.columns, self.new, span)

    def _restore(self, pin: Pin) -> Path:
        return replicas.ensure_local(pin, self.cache_dir)
