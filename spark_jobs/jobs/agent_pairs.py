"""Agents among themselves, by day (UTC): the graph of who writes to whom, and the conversations that go back and forth.

A conversation goes back and forth in which, on that day, both agents wrote to the other. A high ``longest`` is a loop.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from spark_jobs.daily import DailyJob, main_of

SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("from_agent", StringType()),
        StructField("agent", StringType()),
        StructField("messages", LongType()),
        StructField("conversations", LongType()),
        StructField("back_and_forth", LongType()),
        StructField("longest", LongType()),
    ]
)


def agent_pairs(messages: DataFrame) -> DataFrame:
    """One row per (day, from_agent, agent), with the columns of ``SCHEMA``; ``longest`` in messages of one direction.

    Args:
        messages: from_agent, agent, conversation_id, created_at (timestamp).
    """
    between = messages.where("from_agent IS NOT NULL").withColumn("day", F.to_date("created_at"))
    one_way = between.groupBy("day", "conversation_id", "from_agent", "agent").agg(F.count("*").alias("messages"))
    back = one_way.select(
        "day",
        "conversation_id",
        F.col("from_agent").alias("agent"),
        F.col("agent").alias("from_agent"),
        F.lit(1).alias("back"),
    )
    both = one_way.join(back, ["day", "conversation_id", "from_agent", "agent"], "left")
    return both.groupBy("day", "from_agent", "agent").agg(
        F.sum("messages").alias("messages"),
        F.count("conversation_id").alias("conversations"),
        F.count("back").alias("back_and_forth"),
        F.max(F.when(F.col("conversation_id").isNotNull(), F.col("messages"))).alias("longest"),
    )


JOB = DailyJob(
    "agent_pairs",
    "Which agents write to which, by day, and how long their conversations are.",
    SCHEMA,
    3,
    {"messages": ("from_agent", "agent", "conversation_id", "created_at")},
    agent_pairs,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
