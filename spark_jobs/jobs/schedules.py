"""Schedules by day (UTC) and series: how late each run began, which runs were doubled, and which were missed.

A run was missed where the grid of the series has an instant between two runs, by its latest cron expression and zone.
With ``misfire`` = ``coalesce`` or ``skip`` such instants are left out on purpose after a downtime, and count as missed.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from shared.core.cron import next_occurrence
from shared.core.errors import ConfigInvalid
from spark_jobs.daily import DailyJob, main_of

MOST_MISSED = 1000
"""A longer gap counts as this many."""

LOOK_BACK_DAYS = 31
SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("series_id", StringType()),
        StructField("runs", LongType()),
        StructField("doubled", LongType()),
        StructField("missed", LongType()),
        StructField("late_p50_ms", LongType()),
        StructField("late_max_ms", LongType()),
    ]
)


def schedules(runs: DataFrame, messages: DataFrame) -> DataFrame:
    """One row per (day, series_id), with the columns of ``SCHEMA``; the day is that of the run's start.

    Args:
        runs: series_id, due_at, started_at (timestamps): ``schedule_runs``.
        messages: series_id, recurrence, timezone, created_at (timestamp).
    """
    series = (
        messages.where("recurrence IS NOT NULL")
        .groupBy("series_id")
        .agg(F.max_by(F.struct("recurrence", "timezone"), "created_at").alias("grid"))
    )
    first = runs.groupBy("series_id", "due_at").agg(F.count("*").alias("runs"), F.min("started_at").alias("started_at"))
    before = F.lag("due_at").over(Window.partitionBy("series_id").orderBy("due_at"))
    due = first.withColumn("before", before).join(series, "series_id", "left")
    missed = F.udf(missed_between, LongType(), useArrow=False)
    gaps = missed("grid.recurrence", "grid.timezone", F.unix_millis("before"), F.unix_millis("due_at"))
    late = F.greatest(F.unix_millis("started_at") - F.unix_millis("due_at"), F.lit(0))
    return due.groupBy(F.to_date("started_at").alias("day"), "series_id").agg(
        F.sum("runs").alias("runs"),
        F.sum(F.col("runs") - 1).alias("doubled"),
        F.sum(gaps).alias("missed"),
        F.percentile_approx(late, 0.5).alias("late_p50_ms"),
        F.max(late).alias("late_max_ms"),
    )


def missed_between(recurrence: str | None, timezone: str | None, before_ms: int | None, due_ms: int) -> int:
    """How many instants of the grid lie between two runs (ms UTC); 0 where the grid is not known."""
    if recurrence is None or before_ms is None:
        return 0
    count, at = -1, before_ms
    try:
        while at < due_ms and count < MOST_MISSED:
            at = next_occurrence(recurrence, timezone or "UTC", after_ms=at)
            count += 1
    except ConfigInvalid:
        return 0
    return max(count, 0)


JOB = DailyJob(
    "schedules",
    "Schedules by day and series: late, doubled and missed runs.",
    SCHEMA,
    2,
    {
        "schedule_runs": ("series_id", "due_at", "started_at"),
        "messages": ("series_id", "recurrence", "timezone", "created_at"),
    },
    schedules,
    days_before=LOOK_BACK_DAYS,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
