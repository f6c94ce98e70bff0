"""What Spark on the replica is measured against: JDBC in the same session, DuckDB and pandas without Spark."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import duckdb
import pandas as pd
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, TimestampType

from spark_jobs.copies import describe
from spark_jobs.session import session

JDBC_PLACES = ("/usr/share/java/sqlite-jdbc.jar", "/usr/share/java/xerial-sqlite-jdbc.jar")
NO_JDBC = (
    "JDBC is missing: put sqlite-jdbc (Debian: libxerial-sqlite-jdbc-java) on this machine, or name its jar in "
    "POSTROOM_BENCH_JDBC"
)
_JDBC_TYPES: Mapping[DataType, str] = {
    LongType(): "BIGINT",
    TimestampType(): "BIGINT",
    StringType(): "STRING",
    DoubleType(): "DOUBLE",
}
_CHUNK = 100_000


def jdbc_jar() -> str | None:
    """The jar of sqlite-jdbc, or None."""
    places = filter(None, (os.environ.get("POSTROOM_BENCH_JDBC"), *JDBC_PLACES))
    return next((place for place in places if Path(place).is_file()), None)


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session of the jobs that also knows JDBC, where it is installed. Its Java ends with the block."""
    jar = jdbc_jar()
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    if jar is not None:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {jar} pyspark-shell"
    try:
        spark = session("benchmark")
        yield spark
        end_java(spark)
    finally:
        if jar is not None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        if before is not None:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before


def end_java(spark: SparkSession) -> None:
    """Stop the session and its Java, so that the next session begins anew."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait(timeout=120)
    SparkContext._gateway = SparkContext._jvm = None


def jdbc(spark: SparkSession, path: Path, rows: int, partitions: int) -> DataFrame:
    """``messages`` by JDBC, with BIGINT for every INTEGER: the default is silently wrong."""
    fields = describe(path, "messages").fields
    schema = ", ".join(f"`{field.name}` {_JDBC_TYPES[field.dataType]}" for field in fields)
    options = {
        "url": f"jdbc:sqlite:file:{path}?mode=ro&immutable=1",
        "driver": "org.sqlite.JDBC",
        "dbtable": "messages",
        "customSchema": schema,
        "partitionColumn": "id",
        "lowerBound": "1",
        "upperBound": str(rows + 1),
        "numPartitions": str(partitions),
    }
    return spark.read.format("jdbc").options(**options).load()


@contextmanager
def duck(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the restored file attached as ``file``."""
    (extension,) = (Path(str(files("duckdb_extension_sqlite_scanner"))) / "extensions").rglob("*.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"ATTACH '{path}' AS file (TYPE sqlite, READ_ONLY)")
        yield connection


DUCK: Mapping[str, str] = {
    "group by": "SELECT channel, agent, status, count(*), max(created_at) FROM file.messages GROUP BY ALL",
    "full scan": "CREATE OR REPLACE TEMP TABLE seen AS SELECT * FROM file.messages",
    "filter": "SELECT count(*), max(id) FROM file.messages WHERE created_at >= {since} AND created_at < {until}",
}


def pandas_group(path: Path) -> None:
    frame = _frame(path, "SELECT channel, agent, status, created_at FROM messages")
    frame.groupby(["channel", "agent", "status"])["created_at"].agg(["count", "max"])


def pandas_scan(path: Path) -> None:
    """In pieces: as Python objects, all rows would need ten times their size."""
    with _connection(path) as connection:
        for _ in pd.read_sql_query("SELECT * FROM messages", connection, chunksize=_CHUNK):
            pass


def pandas_filter(path: Path, since: int, until: int) -> None:
    frame = _frame(path, f"SELECT id FROM messages WHERE created_at >= {since} AND created_at < {until}")
    frame["id"].agg(["count", "max"])


def _frame(path: Path, query: str) -> pd.DataFrame:
    with _connection(path) as connection:
        return pd.read_sql_query(query, connection)


@contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        yield connection
    finally:
        connection.close()


PANDAS: Mapping[str, Callable[[Path, int, int], None]] = {
    "group by": lambda path, since, until: pandas_group(path),
    "full scan": lambda path, since, until: pandas_scan(path),
    "filter": pandas_filter,
}
