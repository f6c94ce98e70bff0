"""A stream of events that come 500 a second, through ten restarts."""

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from shared.core.time import clock
from shared.db.engine.connection import open_connection, scalar, transaction
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, must_be, percentile
from tests.benchmarks.harness.system import System
from tests.benchmarks.spark.engines import spark_session

_PER_SECOND = 500
_TRIGGER_S = 1
_AT_ONCE = 10  # rows of a commit
_RESTARTS = 10
_LIMIT_S = 300.0
_INSERT = "INSERT INTO events (type, data, created_at) VALUES ('benchmark', '{}', ?)"


class _Writer(threading.Thread):
    """Commits events at an even pace until it is told to end."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system, self.ended = system, threading.Event()

    def run(self) -> None:
        conn = open_connection(self._system.db)
        due = time.perf_counter()
        while not self.ended.is_set():
            time.sleep(max(0.0, due - time.perf_counter()))
            due += _AT_ONCE / _PER_SECOND
            with transaction(conn):
                conn.executemany(_INSERT, [(clock.now_ms(),)] * _AT_ONCE)
        conn.close()


class _Sink:
    """Keeps each batch once, by its number, and how late each of its rows was at the end of the batch."""

    def __init__(self) -> None:
        self.ids: dict[int, list[int]] = {}
        self.late_s: list[float] = []
        self.settled = 0  # batches since the start but the first two, whose rows have waited for the start

    def begin(self) -> None:
        self.settled = -2

    def take(self, batch: DataFrame, number: int) -> None:
        rows = batch.select("id", F.unix_millis("created_at").alias("at")).collect()
        now_ms = time.time() * 1000
        self.ids[number] = [row.id for row in rows]
        if self.settled >= 0:
            self.late_s += [(now_ms - row.at) / 1000 for row in rows]
        self.settled += 1


def followed(scale: Scale) -> Iterator[Line]:
    """Ten times: start from the checkpoint, follow, stop in the middle; then read the rest."""
    sink = _Sink()
    with System(scale.place("spark-stream")) as system, spark_session() as spark:
        url = f"file://{system.folder / 'replica'}"
        system.litestream(url)
        writer = _Writer(system)
        writer.start()
        try:
            for _ in range(_RESTARTS):
                sink.begin()
                query = _started(spark, system, url, sink)
                _wait_for(sink, scale.few(8, 2))
                query.stop()
        finally:
            writer.ended.set()
            writer.join()
        system.stop("litestream")  # its last sync
        _started(spark, system, url, sink, available_now=True).awaitTermination()
        conn = open_connection(system.db)
        source = int(scalar(conn, "SELECT count(*) FROM events WHERE type = 'benchmark'"))
        conn.close()
    ids = list(itertools.chain.from_iterable(sink.ids.values()))
    what = f"stream, {_PER_SECOND} rows/s, trigger of {_TRIGGER_S} s: commit to the end of the batch"
    why = "each trigger restores the database, plans in one Python process and reads in another"
    for name, share, bar in (("p50", 0.5, 1.0 + _TRIGGER_S), ("p99", 0.99, 5.0)):
        value = Spread.of([percentile(sink.late_s, share)])
        yield at_most(f"{what}, {name}", value, bar, "s", beside=f"{len(sink.ids)} batches", reason=why)
    is_met = source == len(ids) == len(set(ids))
    yield must_be(f"the same over {_RESTARTS} restarts: rows in the sink", f"{len(ids):,}", is_met=is_met,
                  bar=f"{source:,}, as in the source", beside=f"{len(ids) - len(set(ids))} twice")  # fmt: skip


def _wait_for(sink: _Sink, batches: int) -> None:
    end = time.monotonic() + _LIMIT_S
    while sink.settled < batches:
        if time.monotonic() > end:
            raise RuntimeError(f"the stream made fewer than {batches} batches in {_LIMIT_S:g} s")
        time.sleep(0.05)


def _started(
    spark: SparkSession, system: System, url: str, sink: _Sink, *, available_now: bool = False
) -> StreamingQuery:
    options = {"replica": url, "table": "events", "columns": "id,type,created_at"}
    options["cache_dir"] = str(system.folder / "cache")
    events = spark.readStream.format("litestream").options(**options).load().where("type = 'benchmark'")
    writer = events.writeStream.foreachBatch(sink.take).option("checkpointLocation", str(system.folder / "checkpoint"))
    trigger: Any = {"availableNow": True} if available_now else {"processingTime": f"{_TRIGGER_S} seconds"}
    return writer.trigger(**trigger).start()


LINES = (followed,)
