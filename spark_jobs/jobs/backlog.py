"""What waits: messages that ask for a turn, by the day (UTC) on which they came, agent, when due, and when they ended.

So the messages that were open at the end of any day can be counted, and how long the open ones of today are overdue.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from spark_jobs.daily import DailyJob, main_of

SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("agent", StringType()),
        StructField("due_at", LongType()),
        StructField("ended", DateType()),
        StructField("messages", LongType()),
        StructField("running", LongType()),
    ]
)


def backlog(messages: DataFrame) -> DataFrame:
    """One row per (day, agent, due_at, ended), with the columns of ``SCHEMA``; paused messages are left out.

    ``due_at``, in ms UTC, is the begin of the hour for an open message, and of the day for one that has ended.
    ``ended`` is null for an open one.

    Args:
        messages: agent, status, trigger (0: context), process_after, created_at, updated_at (timestamps).
    """
    asking = messages.where("trigger = 1 AND status <> 'paused'")
    is_open = F.col("status").isin("pending", "processing")
    due = F.greatest("created_at", "process_after")
    begin = F.when(is_open, F.date_trunc("hour", due)).otherwise(F.date_trunc("day", due))
    return asking.groupBy(
        F.to_date("created_at").alias("day"),
        "agent",
        F.unix_millis(begin).alias("due_at"),
        F.when(~is_open, F.to_date("updated_at")).alias("ended"),
    ).agg(F.count("*").alias("messages"), F.count_if(F.col("status") == "processing").alias("running"))


JOB = DailyJob(
    "backlog",
    "What waits for a turn, by day and agent, and since when.",
    SCHEMA,
    4,
    {"messages": ("agent", "status", "trigger", "process_after", "created_at", "updated_at")},
    backlog,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
