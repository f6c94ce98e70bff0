"""`publish` beside DuckDB's own export of the same file; then the next day's run."""

import resource
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from spark_jobs import replicas
from spark_jobs.mart.manifest import MartManifest, Privacy
from spark_jobs.mart.places import opened
from spark_jobs.mart.privacy import key_of
from spark_jobs.mart.publish import publish
from spark_jobs.mart.source import PinnedTables
from spark_jobs.pushed_filters import Condition
from spark_jobs.replicas import Pin
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, interleave, must_be, ratios
from tests.benchmarks.harness.store import NOW
from tests.benchmarks.spark.engines import duck
from tests.benchmarks.spark.history import History, history

_EXPORT = (
    "COPY (SELECT *, strftime(make_timestamp(created_at * 1000), '%Y-%m-%d') AS day FROM file.messages)"
    " TO '{folder}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (day))"
)


class _Counted(PinnedTables):
    """Counts the rows that it reads of each table."""

    def __init__(self, pin: Pin, path: Path, cache_dir: str) -> None:
        super().__init__(pin, path, cache_dir)
        self.read_rows: dict[str, int] = {}

    def read(
        self, name: str, *conditions: Condition, columns: Sequence[str] = (), left_out: Iterable[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        for batch in super().read(name, *conditions, columns=columns, left_out=left_out):
            self.read_rows[name] = self.read_rows.get(name, 0) + batch.num_rows
            yield batch


def published(scale: Scale) -> Iterator[Line]:
    """The large history into a new mart, in turns with DuckDB; then the rows of the day after."""
    past = history(scale, scale.large_history())
    folder = scale.place("publish")
    cache = folder / "cache"
    path = replicas.ensure_local(past.today, cache)
    mart = folder / "mart"

    def ours() -> float:
        shutil.rmtree(mart, ignore_errors=True)
        start = time.perf_counter()
        _publish(mart, _Counted(past.today, path, str(cache)))
        return time.perf_counter() - start

    def theirs() -> float:
        target = folder / "export"
        shutil.rmtree(target, ignore_errors=True)
        start = time.perf_counter()
        with duck(path) as connection:
            connection.execute(_EXPORT.format(folder=target))
        return time.perf_counter() - start

    seen = interleave({"publish": ours, "DuckDB": theirs}, scale.rounds)
    what = f"publish {past.rows / 1e6:g} M messages / DuckDB's export of the restored file, both by day"
    beside = f"{Spread.of(seen['publish']):.1f} s, DuckDB {Spread.of(seen['DuckDB']):.1f} s; most memory of this "
    beside += f"process so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"
    yield at_most(what, ratios(seen["publish"], seen["DuckDB"]), 1.5, "", beside=beside)
    yield _tomorrow(past, mart, str(cache))


def _tomorrow(past: History, mart: Path, cache: str) -> Line:
    source = _Counted(past.tomorrow, replicas.ensure_local(past.tomorrow, cache), cache)
    start = time.perf_counter()
    manifest = _publish(mart, source)
    took = time.perf_counter() - start
    new = manifest.tables["messages"].rows - past.rows
    read = source.read_rows.get("messages", 0)
    days = sum(day.generation == manifest.generation for day in manifest.tables["messages"].days.values())
    return must_be(
        f"the next day's run: messages read, with {past.rows:,} in the mart",
        f"{read:,}",
        is_met=read == new,
        bar=f"{new:,}, the new ones",
        beside=f"{took:.1f} s, {days} day written",
    )


def _publish(mart: Path, source: PinnedTables) -> MartManifest:
    with opened(str(mart)) as place:
        return publish(place, source, place.begin(), key_of(Privacy()), now_ms=NOW)


LINES = (published,)
