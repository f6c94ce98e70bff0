"""Group by, full scan and filter in a warm Spark session: on the replica and on the mart, beside JDBC, and without."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import apsw
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import GreaterThanOrEqual, LessThan
from pyspark.sql.types import StructType

from shared.core.time import clock
from shared.db.engine.connection import scalar
from spark_jobs import replicas
from spark_jobs.copies import describe
from spark_jobs.datasource import open_replica
from spark_jobs.fields import choose_fields
from spark_jobs.mart.frames import open_mart
from spark_jobs.mart.manifest import Privacy
from spark_jobs.mart.places import opened
from spark_jobs.mart.privacy import key_of
from spark_jobs.mart.publish import publish
from spark_jobs.mart.source import PinnedTables
from spark_jobs.table_reader import LitestreamReader
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, interleave, must_be, ratios
from tests.benchmarks.spark.engines import DUCK, NO_JDBC, PANDAS, duck, jdbc, jdbc_jar, spark_session
from tests.benchmarks.spark.history import BEGIN, DAY_MS, DAYS, History, history

GROUP = ("channel", "agent", "status", "created_at")
_SHAPES = ("group by", "full scan", "filter")
_BARS = {"group by": 0.5, "count": 0.5, "full scan": 0.8}
_PANDAS_SCANS_UP_TO = 1_000_000
SINCE = BEGIN + 5 * DAY_MS
UNTIL = SINCE + DAYS * DAY_MS // 100  # one row in a hundred

Query = Callable[[], object]


def at_1m(scale: Scale) -> Iterator[Line]:
    """A million messages."""
    yield from _lines(scale, history(scale, scale.few(1_000_000, 20_000)))


def at_5m(scale: Scale) -> Iterator[Line]:
    """Five million messages, or as many as ``--messages`` says."""
    yield from _lines(scale, history(scale, scale.large_history()))


def _lines(scale: Scale, past: History) -> Iterator[Line]:
    cache = scale.place(f"queries-{past.rows}") / "cache"
    path = replicas.ensure_local(past.today, cache)
    mart = _published(scale, past, path, cache)
    with spark_session() as spark:
        seen = _seen(scale, spark, past, path, cache, mart)
    million = f"{past.rows / 1e6:g} M messages"
    for shape in _SHAPES:
        yield _against_jdbc(f"{shape}, {million}, replica on the host, named columns", seen, shape, "replica", 1.2)
    for shape, bar in _BARS.items():
        yield _against_jdbc(f"{shape}, {million}, published mart", seen, shape, "mart", bar)
    yield _rows_read(past, path, cache)


def _against_jdbc(what: str, seen: dict[str, list[float]], shape: str, place: str, bar: float) -> Line:
    ours = seen[f"{place}: {shape}"]
    others = {name: seen.get(f"{name}: {shape}") for name in ("JDBC", "DuckDB", "pandas")}
    beside = ", ".join(
        [f"{Spread.of(ours):.2f} s"]
        + [f"{name} {Spread.of(times):.2f} s" for name, times in others.items() if times is not None]
    )
    if others["JDBC"] is None:
        return Line(f"{what} / JDBC", "not measured", f"≤ {bar:g}", None, False, beside, NO_JDBC)
    reason = "every row goes through a Python worker to Java, which JDBC does not need"
    if place == "mart":
        reason = "a query takes 0.2 s of Spark whatever it reads"
    return at_most(f"{what} / JDBC", ratios(ours, others["JDBC"]), bar, "", beside=beside, reason=reason)


def _seen(
    scale: Scale, spark: SparkSession, past: History, path: Path, cache: Path, mart: Path
) -> dict[str, list[float]]:
    """Seconds of each candidate for each shape, in the order of the rounds."""
    replica = open_replica(spark, past.today, cache_dir=cache)
    partitions = replica.table("messages", columns=["id"]).rdd.getNumPartitions()
    found: dict[str, list[float]] = {}
    for shape in (*_SHAPES, "count"):
        columns = _columns_of(shape, path)
        candidates: dict[str, Query] = {}
        if shape != "count":
            load = partial(replica.table, "messages", columns=columns)
            candidates[f"replica: {shape}"] = partial(_spark, shape, load, is_millis=False)
        if jdbc_jar() is not None:
            load = partial(jdbc, spark, path, past.rows, partitions)
            candidates[f"JDBC: {shape}"] = partial(_spark, shape, load, is_millis=True)
        if shape != "filter":
            load = partial(_of_mart, spark, mart, columns)
            candidates[f"mart: {shape}"] = partial(_spark, shape, load, is_millis=False)
        candidates |= _without_spark(shape, path, past.rows)
        for query in candidates.values():  # warm
            query()
        slices = {name: partial(_timed, query) for name, query in candidates.items()}
        found |= interleave(slices, scale.rounds)
    return found


def _without_spark(shape: str, path: Path, rows: int) -> dict[str, Query]:
    if shape == "count":
        return {}
    found: dict[str, Query] = {f"DuckDB: {shape}": partial(_duck, shape, path)}
    if shape != "full scan" or rows <= _PANDAS_SCANS_UP_TO:
        found[f"pandas: {shape}"] = partial(PANDAS[shape], path, SINCE, UNTIL)
    return found


def _duck(shape: str, path: Path) -> None:
    with duck(path) as connection:
        connection.execute(DUCK[shape].format(since=SINCE, until=UNTIL)).fetchall()


def _spark(shape: str, load: Callable[[], DataFrame], *, is_millis: bool) -> None:
    messages = load()
    if shape == "count":
        messages.count()
    elif shape == "group by":
        messages.groupBy("channel", "agent", "status").agg(F.count("*"), F.max("created_at")).collect()
    elif shape == "full scan":
        messages.write.format("noop").mode("overwrite").save()
    else:
        since, until = (F.lit(at) if is_millis else F.timestamp_millis(F.lit(at)) for at in (SINCE, UNTIL))
        within = messages.where((F.col("created_at") >= since) & (F.col("created_at") < until))
        within.agg(F.count("*"), F.max("id")).collect()


def _columns_of(shape: str, path: Path) -> list[str]:
    named = {"group by": list(GROUP), "filter": ["id", "created_at"], "count": ["id"]}
    return named.get(shape) or [field.name for field in describe(path, "messages").fields]


def _of_mart(spark: SparkSession, mart: Path, columns: list[str]) -> DataFrame:
    return open_mart(spark, str(mart)).table("messages", _in_mart(columns))


def _in_mart(columns: list[str]) -> list[str]:
    return [column for column in columns if column not in ("claimed_by", "event_key")]


def _timed(query: Query) -> float:
    start = time.perf_counter()
    query()
    return time.perf_counter() - start


def _published(scale: Scale, past: History, path: Path, cache: Path) -> Path:
    mart = scale.place(f"mart-{past.rows}") / "mart"
    with opened(str(mart)) as place:
        source = PinnedTables(past.today, path, str(cache))
        publish(place, source, place.begin(), key_of(Privacy()), now_ms=clock.now_ms())
    return mart


def _rows_read(past: History, path: Path, cache: Path) -> Line:
    """How many rows leave SQLite for a filter on the key, and for one on ``created_at``."""
    wanted = past.rows // 100
    table = describe(path, "messages")
    schema = StructType(list(choose_fields(table, "id,created_at")))
    half = past.rows // 2
    ends = {"id": (half, half + wanted), "created_at": tuple(map(_instant, (SINCE, UNTIL)))}
    read = {}
    for column, (low, high) in ends.items():
        reader = LitestreamReader(past.today, table, schema, str(cache))
        back = list(reader.pushFilters([GreaterThanOrEqual((column,), low), LessThan((column,), high)]))
        if back:
            raise RuntimeError(f"the filter on {column} was not pushed")
        read[column] = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    is_met = all(count == wanted for count in read.values())
    what = f"rows read for a filter that lets {wanted:,} of {past.rows:,} through: on the key, on created_at"
    looked = f"rows that SQLite steps over inside: key {_steps(path, 'id', half, wanted):,}, "
    looked += f"created_at {_steps(path, 'created_at', SINCE, UNTIL - SINCE):,} (it has no index)"
    return must_be(what, f"{read['id']:,}, {read['created_at']:,}", is_met=is_met, bar=f"{wanted:,}", beside=looked)


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _steps(path: Path, column: str, low: int, span: int) -> int:
    """The rows that a scan inside SQLite looks at."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    conn = apsw.Connection(f"file:{path}?mode=ro&immutable=1", flags=flags)
    try:
        query = f'SELECT count(*) FROM messages WHERE "{column}" >= {low} AND "{column}" < {low + span}'
        cursor = conn.execute(f"EXPLAIN QUERY PLAN {query}")
        is_search = "SEARCH" in str(cursor.fetchall())
        return int(scalar(conn, query if is_search else "SELECT count(*) FROM messages"))
    finally:
        conn.close()


LINES = (at_1m, at_5m)
