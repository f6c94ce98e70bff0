"""Retries and dead messages by cause: by the day (UTC) on which a message came, agent, and cause.

A message is counted under the cause of its last attempt, and each failed attempt under its own, which its event tells.
An attempt of which no event tells, or whose event is of an earlier release, has the cause of the message's row.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from spark_jobs.daily import DailyJob, interval, main_of

DAYS_OF_EVENTS = 31
"""So long after a message came its failures are counted; a retry by hand may come late."""

SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("agent", StringType()),
        StructField("failure", StringType()),
        StructField("messages", LongType()),
        StructField("failed_attempts", LongType()),
        StructField("dead", LongType()),
    ]
)


def failures(messages: DataFrame, events: DataFrame) -> DataFrame:
    """One row per (day, agent, failure), with the columns of ``SCHEMA``.

    ``failure`` is ``none`` where no attempt failed, and ``unknown`` for an attempt whose cause nothing tells any more.

    Args:
        messages: message_id, agent, failure, retry_count, status, created_at (timestamp).
        events: id, type, message_id, data, created_at (timestamp).
    """
    came = messages.select("message_id", F.col("created_at").alias("came_at"))
    until = F.col("came_at") + interval(DAYS_OF_EVENTS)
    states = _states(events.join(came, "message_id").where(F.col("created_at") <= until))
    first = states.groupBy("message_id").agg(F.min_by("so_far", "id").alias("first"))
    told = states.where("is_attempt").groupBy("message_id", "own").agg(F.count("*").alias("failed_attempts"))
    no_more = F.lit(0).cast("long")
    of_row = messages.withColumn("day", F.to_date("created_at")).withColumn("cause", F.col("failure")).drop("failure")
    last = of_row.select(
        "day",
        "agent",
        F.coalesce("cause", F.lit("none")).alias("failure"),
        F.lit(1).cast("long").alias("messages"),
        no_more.alias("failed_attempts"),
        (F.col("status") == "dead").cast("long").alias("dead"),
    )
    earlier = F.when(F.col("first").isNull(), F.col("retry_count")).otherwise(F.col("first") - 1)
    untold = of_row.join(first, "message_id", "left").withColumn("failed_attempts", earlier)
    own = of_row.join(told, "message_id").withColumn("cause", F.coalesce("own", "cause"))
    attempts = [
        each.where("failed_attempts > 0").select(
            "day",
            "agent",
            F.coalesce("cause", F.lit("unknown")).alias("failure"),
            no_more.alias("messages"),
            "failed_attempts",
            no_more.alias("dead"),
        )
        for each in (untold, own)
    ]
    counts = ("messages", "failed_attempts", "dead")
    every = last.unionByName(attempts[0]).unionByName(attempts[1])
    return every.groupBy("day", "agent", "failure").agg(*(F.sum(name).alias(name) for name in counts))


def _states(events: DataFrame) -> DataFrame:
    """For each event of a failed attempt: the failed attempts so far, whether it is one more, and its own cause.

    A wait that costs no attempt leaves their number as it was. A retry by hand begins again, and so does an occurrence
    of a series that gets another instant.
    """
    data = F.from_json("data", "failure string, retry_count long, changed array<string>")
    named = F.arrays_overlap(data["changed"], F.array(F.lit("recurrence"), F.lit("timezone")))
    has_new_instant = named | (F.size(data["changed"]) == 0)  # no name says that only the instant was changed
    is_failure = F.col("type").isin("message_retry", "message_dead")
    begins_again = F.col("type").isin("message_retried", "series_resumed") | (
        (F.col("type") == "series_updated") & has_new_instant
    )
    so_far = F.when(begins_again, 0).otherwise(F.coalesce(data["retry_count"], F.lit(0)))
    found = events.where(is_failure | begins_again).select(
        "id", "message_id", so_far.alias("so_far"), data["failure"].alias("own")
    )
    before = F.lag("so_far", 1, 0).over(Window.partitionBy("message_id").orderBy("id"))
    return found.withColumn("is_attempt", (F.col("so_far") > 0) & (F.col("so_far") != before))


JOB = DailyJob(
    "failures",
    "Retries and dead messages by cause, by day and agent.",
    SCHEMA,
    3,
    {
        "messages": ("message_id", "agent", "failure", "retry_count", "status", "created_at"),
        "events": ("id", "type", "message_id", "data", "created_at"),
    },
    failures,
    read_after={"events": DAYS_OF_EVENTS},
    version=3,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
