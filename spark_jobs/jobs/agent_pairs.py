"""Agents among themselves, by day (UTC): the graph of who writes to whom, and the conversations that go back and forth.

A conversation goes back and forth in which, on that day, both agents wrote to the other. A high ``longest`` is a loop
of two. It goes in a circle in which messages of an agent come back to it over two or more others.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DateType, LongType, StringType, StructField, StructType

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
        StructField("circles", LongType()),
    ]
)
_EDGE = ["from_agent", "agent"]
_EDGES = ArrayType(StructType([StructField(name, StringType()) for name in _EDGE]))


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
    keys = ["day", "conversation_id", *_EDGE]
    both = one_way.join(back, keys, "left").join(_circles(one_way), keys, "left")
    return both.groupBy("day", "from_agent", "agent").agg(
        F.sum("messages").alias("messages"),
        F.count("conversation_id").alias("conversations"),
        F.count("back").alias("back_and_forth"),
        F.max(F.when(F.col("conversation_id").isNotNull(), F.col("messages"))).alias("longest"),
        F.count("circle").alias("circles"),
    )


def _circles(one_way: DataFrame) -> DataFrame:
    """The edges in circles, each with its day and conversation."""
    edges = one_way.groupBy("day", "conversation_id").agg(F.collect_set(F.struct(*_EDGE)).alias("edges"))
    three = edges.where(F.col("conversation_id").isNotNull() & (F.size("edges") > 2))
    circling = F.udf(in_circles, _EDGES, useArrow=False)
    found = three.select("day", "conversation_id", F.explode(circling("edges")).alias("edge"))
    return found.select("day", "conversation_id", "edge.from_agent", "edge.agent", F.lit(1).alias("circle"))


def in_circles(edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those *edges* (from, to) from whose end other agents lead back to their beginning."""
    to = defaultdict(set)
    for start, end in edges:
        to[start].add(end)
    return [(start, end) for start, end in edges if _leads_back(to, end, start)]


def _leads_back(to: Mapping[str, set[str]], begin: str, end: str) -> bool:
    """Whether a way of two edges or more leads from *begin* to *end*."""
    ahead = [agent for agent in to.get(begin, ()) if agent not in (begin, end)]
    seen = {begin, *ahead}
    while ahead:
        following = to.get(ahead.pop(), set())
        if end in following:
            return True
        ahead += following - seen
        seen |= following
    return False


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
