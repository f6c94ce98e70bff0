"""Delivery by channel and day (UTC): what arrived, failed for good, was tried again, or has an unknown outcome.

The time is from the instant at which a response is ready, or planned for, to the platform's acceptance of all of it, in
milliseconds; percentiles are approximate. A delivery that took longer than two days has no time. A planned response
whose series was cancelled did not fail. One that is retried or deleted by hand within a week is no longer dead.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from shared.db.queue.schedules.series import CALLED_OFF
from spark_jobs.daily import DailyJob, interval, main_of

SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("channel", StringType()),
        StructField("delivered", LongType()),
        StructField("dead", LongType()),
        StructField("retries", LongType()),
        StructField("unknown_outcomes", LongType()),
        StructField("still_dead", LongType()),
        StructField("delivery_p50_ms", LongType()),
        StructField("delivery_p95_ms", LongType()),
        StructField("delivery_p99_ms", LongType()),
    ]
)
_TYPES = ("response_acked", "response_dead", "response_retry", "response_outcome_unknown")
_DAYS_BEFORE, _DAYS_AFTER = 2, 7
_AFTER_DEATH = ("response_dead", "response_retried", "response_deleted")


def deliveries(events: DataFrame) -> DataFrame:
    """One row per (day, channel), with the columns of ``SCHEMA``.

    Args:
        events: id, type, response_id, channel, data, created_at (timestamp).
    """
    planned = F.timestamp_millis(F.from_json("data", "deliver_after long")["deliver_after"])
    ready = events.where("type = 'response_ready'").select(
        "response_id", F.greatest("created_at", planned).alias("ready_at"), F.col("created_at").alias("said_at")
    )
    acked = events.where("type = 'response_acked'").select("id", "response_id", "created_at")
    is_near = F.col("said_at").between(F.col("created_at") - interval(_DAYS_BEFORE), F.col("created_at"))
    since = acked.join(ready, "response_id").where(is_near).groupBy("id").agg(F.max("ready_at").alias("ready_at"))
    why = F.from_json("data", "failure string, reason string")
    # Events of earlier releases tell only the reason.
    is_called_off = F.coalesce(why["failure"] == "called_off", why["reason"] == CALLED_OFF, F.lit(False))
    is_death = F.col("type") == "response_dead"
    deaths = events.where(is_death).select("id", "response_id", "created_at")
    later = events.where(F.col("type").isin(*_AFTER_DEATH)).select(
        F.col("id").alias("later_id"), "response_id", F.col("created_at").alias("later_at")
    )
    is_undone = (F.col("later_id") > F.col("id")) & (F.col("later_at") <= F.col("created_at") + interval(_DAYS_AFTER))
    undone = deaths.join(later, "response_id").where(is_undone).select("id", F.lit(True).alias("undone")).distinct()
    ends = (
        events.where(F.col("type").isin(*_TYPES) & ~(is_death & is_called_off))
        .join(since, "id", "left")
        .join(undone, "id", "left")
    )
    took = F.greatest(F.unix_millis("created_at") - F.unix_millis("ready_at"), F.lit(0))
    ms = F.when((F.col("type") == "response_acked") & F.col("ready_at").isNotNull(), took)
    found = ends.groupBy(F.to_date("created_at").alias("day"), "channel").agg(
        F.count_if(F.col("type") == "response_acked").alias("delivered"),
        F.count_if(is_death).alias("dead"),
        F.count_if(F.col("type") == "response_retry").alias("retries"),
        F.count_if(F.col("type") == "response_outcome_unknown").alias("unknown_outcomes"),
        F.count_if(is_death & F.col("undone").isNull()).alias("still_dead"),
        F.percentile_approx(ms, [0.5, 0.95, 0.99]).alias("p"),
    )
    percentiles = [F.col("p")[index].alias(f"delivery_p{p}_ms") for index, p in enumerate((50, 95, 99))]
    return found.select("*", *percentiles)


JOB = DailyJob(
    "deliveries",
    "Delivery by day and channel: time, failures, unknown outcomes.",
    SCHEMA,
    2,
    {"events": ("id", "type", "response_id", "channel", "data", "created_at")},
    deliveries,
    days_before=_DAYS_BEFORE,
    days_after=_DAYS_AFTER,
    version=3,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
