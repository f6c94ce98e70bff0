"""People by day (UTC) and channel: how many wrote, how many of them came back, and in how many sessions.

A person returns who also wrote on an earlier one of the 30 days before.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from spark_jobs.daily import DailyJob, main_of

RETURN_DAYS = 30
SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("channel", StringType()),
        StructField("active", LongType()),
        StructField("returning", LongType()),
        StructField("sessions", LongType()),
        StructField("messages", LongType()),
    ]
)


def people(messages: DataFrame) -> DataFrame:
    """One row per (day, channel), with the columns of ``SCHEMA``.

    Args:
        messages: channel, sender_id, from_agent, session_id, created_at (timestamp).
    """
    said = messages.where("from_agent IS NULL AND sender_id IS NOT NULL").withColumn("day", F.to_date("created_at"))
    daily = said.groupBy("day", "channel", "sender_id").agg(F.count("*").alias("messages"))
    before = F.lag("day").over(Window.partitionBy("channel", "sender_id").orderBy("day"))
    seen = daily.withColumn("before", before)
    counted = seen.groupBy("day", "channel").agg(
        F.count("*").alias("active"),
        F.count_if(F.date_diff("day", "before") <= RETURN_DAYS).alias("returning"),
        F.sum("messages").alias("messages"),
    )
    sessions = said.groupBy("day", "channel").agg(F.count_distinct("session_id").alias("sessions"))
    return counted.join(sessions, ["day", "channel"])


JOB = DailyJob(
    "people",
    "People by day and channel: active, returning, sessions.",
    SCHEMA,
    2,
    {"messages": ("channel", "sender_id", "from_agent", "session_id", "created_at")},
    people,
    days_before=RETURN_DAYS,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
