"""A cursor of ADBC that yields Arrow, without ADBC's own DB-API.

That one imports ``pyarrow.dataset``, and so pandas: half a second of CPU in each of the three Python processes of a
query, more than the rest of what they load. ``pyarrow.array`` and ``pyarrow.scalar`` import pandas too.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Self

import adbc_driver_manager as adbc
import adbc_driver_sqlite
import pyarrow as pa

Error = adbc.Error


class CopyCursor:
    """One connection to an SQLite file, for one thread, as a context.

    Args:
        uri: of the file, as SQLite takes it.
        batch_rows: how many rows an Arrow batch of a result has at most.

    Raises:
        Error: SQLite can't do it; from every method.
    """

    def __init__(self, uri: str, batch_rows: int) -> None:
        self._batch_rows = str(batch_rows)
        self._result: Any = None
        self._statement: Any = None
        self._database = adbc_driver_sqlite.connect(uri)
        try:
            self._connection = adbc.AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_statement()
        self._connection.close()
        self._database.close()

    def execute(self, query: str, values: Sequence[Any] = ()) -> None:
        """Run *query* with *values* for its question marks; the result of the query before ends."""
        self._end_statement()
        statement = self._statement = adbc.AdbcStatement(self._connection)
        statement.set_options(**{"adbc.sqlite.query.batch_rows": self._batch_rows})
        statement.set_sql_query(query)
        statement.prepare()
        if values:
            statement.bind(pa.RecordBatch.from_arrays([_bound(value) for value in values], [""] * len(values)))
        handle, _ = statement.execute_query()
        self._result = pa.RecordBatchReader.from_stream(handle)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result, batch by batch."""
        try:
            yield from self._result
        except (pa.ArrowException, OSError) as error:  # a stream of Arrow has no errors of ADBC
            raise adbc.OperationalError(str(error), status_code=adbc.AdbcStatusCode.IO) from None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows of the result."""
        return [row for batch in self.batches() for row in zip(*(each.to_pylist() for each in batch), strict=True)]

    def _end_statement(self) -> None:
        if self._result is not None:
            self._result.close()
        if self._statement is not None:
            self._statement.close()
        self._result = self._statement = None


def _bound(value: str | bytes | int | float) -> pa.Array:
    """An array of this one value, made of its bytes."""
    if isinstance(value, int | float):
        kind, form = (pa.int64(), "=q") if isinstance(value, int) else (pa.float64(), "=d")
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(struct.pack(form, value))])
    kind, data = (pa.string(), value.encode()) if isinstance(value, str) else (pa.binary(), value)
    ends = struct.pack("=ii", 0, len(data))
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])
