"""Schedules by day (UTC) and series: how late each run began, which runs were doubled, and which were missed.

A run was missed where the grid of the series has an instant between two runs, by the cron expression and the zone of
the later run. It counts on the day of that run; null where a run is of a release that kept neither. With ``misfire`` =
``coalesce`` such instants are left out on purpose after a downtime, and count as missed. What the series passes over
once its next occurrence has been made was not missed: it was paused, its schedule was changed, or that occurrence was
cancelled by hand.

Occurrences that should have begun since the last run count on the day of the mart's position, up to its instant, where
the series still goes on: one that is paused, cancelled or at its end misses nothing.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from shared.core.errors import ConfigInvalid
from shared.core.time.cron import next_occurrence
from spark_jobs.daily import DailyJob, main_of

MOST_MISSED = 1000
"""A longer gap counts as this many."""

LATE_MS = 300_000
"""An occurrence that has not begun so long after its instant is missed for now. A turn before it may take as long."""

LOOK_BACK_DAYS = 35
"""A series of a month has its last run, and the row of its next occurrence, within these days before the position."""

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


def schedules(runs: DataFrame, messages: DataFrame, responses: DataFrame, *, at_ms: int) -> DataFrame:
    """One row per (day, series_id), with the columns of ``SCHEMA``; the day is that of the run's start.

    Args:
        runs: series_id, recurrence, timezone, due_at, started_at, made_at, previous_due_at (timestamps):
            ``schedule_runs``. A run whose occurrence was begun before has its own instant as the one before.
        messages: series_id, recurrence, timezone, status, scheduled_at, created_at (timestamps), message_id.
        responses: the same columns.
        at_ms: the instant of the position, in ms UTC.
    """
    # The instant that is due is looked for once, when the occurrence is made: a downtime ends before that.
    until = F.least(F.unix_millis("due_at"), F.unix_millis("made_at") + 1)
    missed = F.udf(missed_between, LongType(), useArrow=False)
    gaps = missed("recurrence", "timezone", F.unix_millis("previous_due_at"), until)
    is_again = F.coalesce(F.col("previous_due_at") == F.col("due_at"), F.lit(False))
    is_known = F.col("recurrence").isNotNull() | F.col("made_at").isNotNull()
    late = F.greatest(F.unix_millis("started_at") - F.unix_millis("due_at"), F.lit(0))
    begun = runs.select(
        F.to_date("started_at").alias("day"),
        "series_id",
        F.lit(1).cast("long").alias("runs"),
        is_again.cast("long").alias("doubled"),
        F.when(is_again, F.lit(0)).when(is_known, gaps).alias("missed"),
        F.when(~is_again, late).alias("late"),
    )
    occurrences = messages.unionByName(responses).where("series_id IS NOT NULL")
    every = begun.unionByName(_missed_since(runs, occurrences, at_ms))
    return every.groupBy("day", "series_id").agg(
        F.sum("runs").alias("runs"),
        F.sum("doubled").alias("doubled"),
        F.sum("missed").alias("missed"),
        F.percentile_approx("late", 0.5).alias("late_p50_ms"),
        F.max("late").alias("late_max_ms"),
    )


def _missed_since(runs: DataFrame, occurrences: DataFrame, at_ms: int) -> DataFrame:
    """The series that go on and have missed something since their last run, on the day of the position.

    The newest occurrence tells whether a series goes on: an older row may still have its recurrence in the mart.
    """
    names = ("recurrence", "timezone", "status", "scheduled_at")
    day = F.to_date(F.timestamp_millis(F.lit(at_ms)))
    begin = F.date_sub(day, LOOK_BACK_DAYS)
    recent = occurrences.where(F.to_date("created_at") >= begin)
    latest = F.max_by(F.struct(*names), F.struct("created_at", "message_id"))
    newest = recent.groupBy("series_id").agg(latest.alias("newest"))
    live = newest.select("series_id", "newest.*").where("recurrence IS NOT NULL AND status <> 'paused'")
    last = (
        runs.where(F.to_date("started_at") >= begin)
        .groupBy("series_id")
        .agg(F.unix_millis(F.max("due_at")).alias("last_due"))
    )
    missed = F.udf(missed_until, LongType(), useArrow=False)
    scheduled = F.unix_millis("scheduled_at")
    count = missed("recurrence", "timezone", "status", scheduled, "last_due", F.lit(at_ms - LATE_MS))
    return (
        live.join(last, "series_id", "left")
        .select(
            day.alias("day"),
            "series_id",
            F.lit(0).cast("long").alias("runs"),
            F.lit(0).cast("long").alias("doubled"),
            count.alias("missed"),
            F.lit(None).cast("long").alias("late"),
        )
        .where("missed > 0")
    )


def missed_between(recurrence: str | None, timezone: str | None, before_ms: int | None, due_ms: int) -> int:
    """How many instants of the grid lie between two instants (ms UTC); 0 where the grid is not known."""
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


def missed_until(
    recurrence: str, timezone: str | None, status: str, scheduled_ms: int, last_due_ms: int | None, until_ms: int
) -> int:
    """How many occurrences of a series should have begun by *until_ms* and have not (ms UTC).

    Args:
        status: of the newest occurrence. One that was cancelled by hand is left out, and the next one follows.
        scheduled_ms: its instant on the grid.
        last_due_ms: the instant of the last run; None: there is none.
    """
    has_begun = last_due_ms is not None and last_due_ms >= scheduled_ms
    count = int(status != "cancelled" and not has_begun and scheduled_ms <= until_ms)
    at = max(scheduled_ms, last_due_ms or 0)
    try:
        while count < MOST_MISSED:
            at = next_occurrence(recurrence, timezone or "UTC", after_ms=at)
            if at > until_ms:
                break
            count += 1
    except ConfigInvalid:
        return count
    return count


_OF_A_SERIES = ("series_id", "recurrence", "timezone", "status", "scheduled_at", "created_at", "message_id")
JOB = DailyJob(
    "schedules",
    "Schedules by day and series: late, doubled and missed runs.",
    SCHEMA,
    2,
    {
        "schedule_runs": (
            *("series_id", "recurrence", "timezone", "due_at", "started_at", "made_at", "previous_due_at"),
        ),
        "messages": _OF_A_SERIES,
        "responses": _OF_A_SERIES,
    },
    schedules,
    days_before=LOOK_BACK_DAYS,
    has_present=True,
    version=4,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
