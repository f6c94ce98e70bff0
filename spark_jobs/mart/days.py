"""Writes the rows of one table into files, one or more for each day, and reads a day back."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import parquet as pq

from spark_jobs.mart.manifest import WHOLE, DayFiles
from spark_jobs.mart.places import MartPlace, file_name

_OPEN_FILES = 8
_BATCH_ROWS = 65_536


class DayWriter:
    """New files of one table and one generation. Rows may come in any order of days; memory does not grow with them."""

    def __init__(self, place: MartPlace, table: str, schema: pa.Schema, generation: int, run: str) -> None:
        self._place, self._table, self._schema = place, table, schema
        self._generation, self._run = generation, run
        self._open: dict[str, Any] = {}
        self._files: defaultdict[str, list[str]] = defaultdict(list)
        self._rows: Counter[str] = Counter()
        self._count = 0

    def write(self, rows: pa.RecordBatch, by: str) -> None:
        """Write *rows* to the days of the instant in their column *by*; empty: the table has no days."""
        rows = as_schema(rows, self._schema)
        if not by:
            self._append(WHOLE, rows)
            return
        for day, its_rows in by_day(rows, by):
            self._append(day, its_rows)

    def finish(self) -> dict[str, DayFiles]:
        """Close all files; return what was written, by day."""
        while self._open:
            self._open.pop(next(iter(self._open))).close()
        return {day: DayFiles(self._rows[day], self._generation, tuple(names)) for day, names in self._files.items()}

    def _append(self, day: str, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        writer = self._open.pop(day, None)
        if writer is None:
            while len(self._open) >= _OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            in_name = "" if day == WHOLE else day
            name = file_name(self._table, in_name, self._generation, self._run, self._count)
            self._count += 1
            writer = self._place.new_file(name, self._schema)
            self._files[day].append(name)
        self._open[day] = writer  # the last one that was used is the last one to be closed
        writer.write_batch(rows)
        self._rows[day] += rows.num_rows


def read_day(files: Any, base: str, day: DayFiles, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one day of one table, in the order in which they were written.

    Args:
        files: pyarrow's file system.
        base: the folder of the manifest in it.
    """
    for name in day.files:
        with pq.ParquetFile(files.open_input_file(f"{base}/{name}")) as file:
            known = None if columns is None else [column for column in columns if column in file.schema_arrow.names]
            yield from file.iter_batches(_BATCH_ROWS, columns=known)


def as_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """*rows* with the columns of *schema*: those that they lack are null."""
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def by_day(rows: pa.RecordBatch, by: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each day in UTC of the instant in column *by*; the day is written ``2026-03-01``."""
    days = rows.column(by).cast(pa.date32())  # a tenth of the time that strftime takes
    found = pc.unique(days)
    for day in found:
        yield str(day.as_py()), rows if len(found) == 1 else rows.filter(pc.equal(days, day))
