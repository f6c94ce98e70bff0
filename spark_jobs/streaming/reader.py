"""The reader behind ``spark.readStream.format("litestream")``.

- Each trigger pins the newest position of the replica and restores it, so a trigger every half minute or more is right
  (``trigger(processingTime="30 seconds")``), or ``trigger(availableNow=True)`` from a scheduler.
- A batch that Spark repeats after a restart reads the position in its offset. If the replica has merged that position
  into a later one, the batch reads the newest position of the same epoch, which has the same rows: they never change.
- A batch has all rows between its offsets, or the stream stops: rows that retention deleted first leave a hole.
- After a restore the database has a new epoch, and its history may have gone back. With ``on_new_epoch=cross`` the
  stream goes on after the last row that both histories have.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, GreaterThan, InputPartition, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_jobs import replicas
from spark_jobs.copies import describe
from spark_jobs.replicas import Pin, PositionMissing, ReplicaMissing
from spark_jobs.streaming.errors import EpochChanged, HoleInStream, StreamBroken
from spark_jobs.streaming.histories import Copy, last_common_row
from spark_jobs.streaming.offsets import Offset
from spark_jobs.streaming.options import StreamOptions, check_table
from spark_jobs.table_reader import LitestreamReader, RowRange

COPY_IDLE_SECONDS = 120.0  # another reader of the same position begins well within it

_log = logging.getLogger("postroom.replicas")


class StreamRange(InputPartition):
    """The rows of one task: those from *low* to *high*, both included, at *position*."""

    def __init__(self, position: str, low: int, high: int) -> None:
        super().__init__((position, low, high))
        self.position = position
        self.low = low
        self.high = high


class LitestreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, and reads in the workers from what each partition says."""

    def __init__(self, schema: StructType, url: str, table: str, options: Mapping[str, str]) -> None:
        replicas.check_url(url)
        self.columns = schema
        self.url = url
        self.table = check_table(table)
        self.options = StreamOptions.of(options)
        self.target: Copy | None = None
        self.restored: dict[str, Pin] = {}  # by the triggers of this run

    def initialOffset(self) -> dict[str, Any]:
        copy = self._newest()
        ends = copy.ends(self.table)
        row = 0
        if ends is not None:
            row = ends[1] if self.options.starts_newest else ends[0] - 1
        return Offset(copy.epoch, copy.pin.position, row, table=self.table).dump()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.options.max_rows is None else ReadMaxRows(self.options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self._newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; *start* itself if there is nothing to read.

        Raises:
            EpochChanged: the database was restored, and the option on_new_epoch is not cross.
            StreamBroken: rows that were read are not in the replica any more.
        """
        begin = Offset.load(start, self.table)
        copy = self.target or self._newest()
        self._drop_old_copies(begin.position, copy.pin)
        crossed_at = None if copy.epoch == begin.epoch else self._crossing(begin, copy)
        after = begin.row if crossed_at is None else crossed_at
        self._refuse_rewound(copy, after)
        row = self._last_row(copy, after, limit)
        if row is None and crossed_at is None:
            return start
        until = after if row is None else row
        return Offset(copy.epoch, copy.pin.position, until, crossed_at, self.table).dump()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one batch.

        Raises:
            HoleInStream: rows between the offsets are deleted, and the option on_hole is not cross.
        """
        begin, until = Offset.load(start, self.table), Offset.load(end, self.table)
        after = begin.row if until.crossed_at is None else until.crossed_at
        if after >= until.row:
            return []
        copy = self._with_rows_of(until)
        self._check_for_hole(copy, after, until.row)
        reader = self._reader(copy.pin)
        list(reader.pushFilters([GreaterThan(("id",), after), LessThanOrEqual(("id",), until.row)]))
        ranges = [cast(RowRange, part) for part in reader.partitions()]
        return [
            StreamRange(copy.pin.position, part.low, part.high)
            for part in ranges
            if part.low is not None and part.high is not None and part.low <= part.high
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = cast(StreamRange, partition)
        return self._reader(Pin.at(self.url, part.position)).read(RowRange(part.low, part.high))

    def _reader(self, pin: Pin) -> LitestreamReader:
        path = replicas.ensure_local(pin, self.options.cache_dir)
        table = describe(path, self.table, has_timestamps=self.options.has_timestamps)
        return LitestreamReader(pin, table, self.columns, self.options.cache_dir)

    def _newest(self) -> Copy:
        copy = Copy.newest(self.url, self.options.cache_dir)
        self.restored[copy.pin.position] = copy.pin
        return copy

    def _drop_old_copies(self, begin: str, newest: Pin) -> None:
        """Delete the copies of earlier triggers, or a stream would fill the cache; other readers may still have one."""
        for position, pin in list(self.restored.items()):
            if position in (begin, newest.position):
                continue
            if replicas.drop_idle(pin, self.options.cache_dir, idle_seconds=COPY_IDLE_SECONDS):
                del self.restored[position]

    def _last_row(self, copy: Copy, after: int, limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadMaxRows):
            return copy.row_after(self.table, after, limit.max_rows)
        ends = copy.ends(self.table)
        return ends[1] if ends is not None and ends[1] > after else None

    def _refuse_rewound(self, copy: Copy, after: int) -> None:
        ends = copy.ends(self.table)
        newest = ends[1] if ends else 0
        if newest < after:
            raise StreamBroken(
                f"{self.table}: the stream has read up to row {after}, and the replica ends at row {newest} (position "
                f"{copy.pin.txid} of {copy.pin.timestamp}): it holds an older copy, or another database. Check who "
                "replicates there, or begin with a new checkpointLocation"
            )

    def _crossing(self, begin: Offset, copy: Copy) -> int:
        """The row after which the stream goes on in the new epoch."""
        if not self.options.crosses_epochs:
            raise EpochChanged(
                f"{self.table}: the database was restored: its epoch is {copy.epoch or 'none'}, and the stream has "
                f"read epoch {begin.epoch or 'none'} up to row {begin.row}. Rows after the restored state may be "
                "others than those that were read. To continue after the last row that both have: on_new_epoch=cross"
            )
        ends = copy.ends(self.table)
        common = last_common_row(self._old_copy(begin), copy, self.table, begin.row)
        if common is None:
            common = min(begin.row, ends[0] - 1 if ends else 0)
        _log.warning(
            "stream.epoch_crossed table=%s from=%s to=%s read=%d common=%d",
            *(self.table, begin.epoch or "-", copy.epoch or "-", begin.row, common),
        )
        return common

    def _old_copy(self, begin: Offset) -> Copy:
        """A copy of the epoch that the stream comes from, with the rows that it has read."""
        found = Copy.at(self.url, begin.position, self.options.cache_dir)
        if found is not None:
            return found
        try:
            return Copy.newest(self.url, self.options.cache_dir, Pin.at(self.url, begin.position).epoch)
        except (PositionMissing, ReplicaMissing) as error:
            raise EpochChanged(
                f"{self.table}: the old epoch {begin.epoch or 'none'} is deleted, so it can't be compared with the new "
                f"one ({error}): begin with a new checkpointLocation"
            ) from None

    def _with_rows_of(self, until: Offset) -> Copy:
        """A copy that has all rows up to this offset."""
        found = Copy.at(self.url, until.position, self.options.cache_dir)
        if found is None:
            found = self._newest()
        if found.epoch != until.epoch:
            found = Copy.newest(self.url, self.options.cache_dir, until.epoch)
        self._refuse_rewound(found, until.row)
        return found

    def _check_for_hole(self, copy: Copy, after: int, until: int) -> None:
        missing = until - after - copy.count(self.table, after, until) - copy.left_out(self.table, after, until)
        if not missing:
            return
        if not self.options.crosses_holes:
            raise HoleInStream(
                f"{self.table}: {missing} of the rows from {after + 1} to {until} are deleted, before the stream read "
                "them (POSTROOM_HISTORY_RETENTION_MS). To continue without them: on_hole=cross"
            )
        _log.warning("stream.hole_crossed table=%s after=%d until=%d missing=%d", self.table, after, until, missing)
