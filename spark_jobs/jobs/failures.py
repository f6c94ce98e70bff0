"""Retries and dead messages by cause: by the day (UTC) on which a message came, agent, and ``messages.failure``."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from spark_jobs.daily import DailyJob, main_of

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


def failures(messages: DataFrame) -> DataFrame:
    """One row per (day, agent, failure), with the columns of ``SCHEMA``; failure is ``none`` where no attempt failed.

    Args:
        messages: agent, failure, retry_count, status, created_at (timestamp).
    """
    return messages.groupBy(
        F.to_date("created_at").alias("day"), "agent", F.coalesce("failure", F.lit("none")).alias("failure")
    ).agg(
        F.count("*").alias("messages"),
        F.sum("retry_count").alias("failed_attempts"),
        F.count_if(F.col("status") == "dead").alias("dead"),
    )


JOB = DailyJob(
    "failures",
    "Retries and dead messages by cause, by day and agent.",
    SCHEMA,
    3,
    {"messages": ("agent", "failure", "retry_count", "status", "created_at")},
    failures,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
