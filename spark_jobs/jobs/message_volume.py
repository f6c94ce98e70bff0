"""Daily message volume per channel, from one position of a replica; with ``--mart PLACE``, from a mart.

Over a mart it is as every other job of :mod:`spark_jobs.daily`: by day in UTC, only the days that changed, and with the
rows that the database has pruned since. What follows is for a replica.

Reads ``messages`` (channel, status, created_at). Writes ``OUT/parquet/day=YYYY-MM-DD/*.parquet`` and, last,
``OUT/manifest.json``: which position it was, and what was written. A second run for the same position writes the same;
it leaves other days alone.

``messages`` is pruned: a finished message leaves the table after a day or so. So a day that now holds fewer messages
than an earlier run counted stays as it was, and the manifest says so. Run the job at least daily, soon after midnight.

Exit codes: see :mod:`spark_jobs.command_line`.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from spark_jobs.command_line import (
    OutInvalid,
    arguments_of,
    as_text,
    locked_folder,
    read_manifest,
    run_job,
    time_zone,
    write_manifest,
)
from spark_jobs.daily import DailyJob, main_of
from spark_jobs.datasource import open_replica
from spark_jobs.replicas import Pin

JOB = "message_volume"
COLUMNS = ("channel", "status", "created_at")
SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("channel", StringType()),
        StructField("received", LongType()),
        StructField("completed", LongType()),
        StructField("dead", LongType()),
    ]
)


def message_volume(messages: DataFrame, tz: str = "UTC") -> DataFrame:
    """One row per (day, channel): day date, channel string, received long, completed long, dead long.

    Args:
        messages: channel, status, created_at (timestamp).
        tz: the IANA zone whose days are meant.
    """
    day = F.to_date(F.from_utc_timestamp("created_at", tz))
    return messages.groupBy(day.alias("day"), "channel").agg(
        F.count("*").alias("received"),
        F.count_if(F.col("status") == "completed").alias("completed"),
        F.count_if(F.col("status") == "dead").alias("dead"),
    )


def run(
    spark: SparkSession,
    pin: Pin,
    out: Path,
    *,
    tz: str = "UTC",
    cache_dir: str | None = None,
) -> tuple[list[Row], dict[str, Any]]:
    """Do the whole job; return the rows, by day and channel, and the manifest.

    Raises:
        InUse: another run writes to *out*.
        OutInvalid: *out* can't be written, or holds the days of another zone.
    """
    with locked_folder(out):
        _check_zone(out, tz)
        replica = open_replica(spark, pin, cache_dir=cache_dir)
        volume = message_volume(replica.table("messages", columns=COLUMNS), tz).cache()  # collected, and written
        rows = sorted(volume.collect(), key=lambda row: (row.day, row.channel))
        parquet = out / "parquet"
        before = _received_by_day(parquet)
        now: Counter[date] = Counter()
        for row in rows:
            now[row.day] += row.received
        kept = sorted(day for day, received in now.items() if received < before[day])
        written = sorted(now.keys() - set(kept))
        fresh = [row for row in rows if row.day not in kept]
        if fresh:
            table = volume.where(F.col("day").isin(written)).coalesce(1)
            days = table.write.partitionBy("day").option("partitionOverwriteMode", "dynamic")
            days.parquet(str(parquet), mode="overwrite")
        volume.unpersist()
        manifest = write_manifest(
            out,
            JOB,
            pin,
            tz=tz,
            messages=now.total(),
            rows=len(fresh),
            days_written=[day.isoformat() for day in written],
            days_kept=[day.isoformat() for day in kept],
        )
    return rows, manifest


OVER_MART = DailyJob(
    JOB,
    "Daily message volume per channel, from a mart; the days are those of UTC.",
    SCHEMA,
    2,
    {"messages": COLUMNS},
    message_volume,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the job, print the latest rows; return the exit code."""
    given = sys.argv[1:] if argv is None else argv
    if any(argument == "--mart" or argument.startswith("--mart=") for argument in given):
        return main_of(OVER_MART, given)
    parser = arguments_of(
        JOB, "Daily message volume per channel, from a Litestream replica, or with --mart from a mart."
    )
    parser.add_argument("--tz", type=time_zone, default="UTC", help="the time zone of the days (default UTC)")
    options = parser.parse_args(argv)

    def do(spark: SparkSession, pin: Pin) -> str:
        rows, manifest = run(spark, pin, Path(options.out), tz=options.tz, cache_dir=options.cache_dir)
        return _said(rows, manifest, options.out)

    return run_job(JOB, options, lambda out: _check_zone(out, options.tz), do)


def _said(rows: Sequence[Row], manifest: dict[str, Any], out: str) -> str:
    kept = manifest["days_kept"]
    return (
        as_text(rows, SCHEMA, labels=2)
        + ("" if rows else "no messages yet\n")
        + f"{manifest['messages']} messages at txid {manifest['txid']} ({manifest['timestamp']}); "
        + f"days written to {out}/parquet: {len(manifest['days_written'])}"
        + (f"; kept, because an earlier run counted more: {', '.join(kept)}" if kept else "")
        + "\n"
    )


def _check_zone(out: Path, tz: str) -> None:
    manifest = read_manifest(out)
    stored = tz if manifest is None else manifest.get("tz")
    if stored is None:
        raise OutInvalid(f"{out} holds what was counted over a mart, or by another job: name another folder with --out")
    if stored != tz:
        raise OutInvalid(f"{out} holds days of {stored}: run with --tz {stored}, or name another folder with --out")


def _received_by_day(parquet: Path) -> Counter[date]:
    """What earlier runs counted, by day."""
    received: Counter[date] = Counter()
    if not parquet.is_dir():
        return received
    from pyarrow import dataset  # it brings pandas, half a second that a first run does not need

    by_day = dataset.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
    stored = dataset.dataset(str(parquet), format="parquet", partitioning=by_day)
    for batch in stored.to_batches(columns=["day", "received"]):
        for row in batch.to_pylist():
            received[date.fromisoformat(row["day"])] += row["received"]
    return received
