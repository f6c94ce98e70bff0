"""Cost by day (UTC), agent and model, from ``usage``: a turn counts on the day of its first request to a model."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from spark_jobs.daily import DailyJob, main_of

SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("agent", StringType()),
        StructField("model", StringType()),
        StructField("paid_by", StringType()),
        StructField("turns", LongType()),
        StructField("requests", LongType()),
        StructField("input", LongType()),
        StructField("output", LongType()),
        StructField("cache_read", LongType()),
        StructField("cache_write", LongType()),
        StructField("cost_micro_dollars", LongType()),
        StructField("turns_without_price", LongType()),
    ]
)
_SUMS = ("requests", "input", "output", "cache_read", "cache_write")


def costs(usage: DataFrame) -> DataFrame:
    """One row per (day, agent, model, paid_by), with the columns of ``SCHEMA``.

    Args:
        usage: turn, agent, model, paid_by, the counts, cost (micro-dollars or null), created_at (timestamp).
    """
    return usage.groupBy(F.to_date("created_at").alias("day"), "agent", "model", "paid_by").agg(
        F.count("*").alias("turns"),
        *(F.sum(name).alias(name) for name in _SUMS),
        F.coalesce(F.sum("cost"), F.lit(0).cast("long")).alias("cost_micro_dollars"),
        F.count_if(F.col("cost").isNull()).alias("turns_without_price"),
    )


JOB = DailyJob(
    "costs",
    "Cost by day, agent and model.",
    SCHEMA,
    4,
    {"usage": ("agent", "model", "paid_by", *_SUMS, "cost", "created_at")},
    costs,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
