"""How long messages wait for their turn, and how long turns run: by day, hour (UTC) and agent.

A message waits from its arrival, or from the instant it was planned for, to the start of its first turn. A turn runs
from its start to its end. Percentiles are approximate, in milliseconds. A message that came more than 48 hours before
its turn is not counted, and neither is a turn longer than that.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructField, StructType

from spark_jobs.daily import DailyJob, interval, main_of

SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("hour", IntegerType()),
        StructField("agent", StringType()),
        StructField("waited", LongType()),
        StructField("wait_p50_ms", LongType()),
        StructField("wait_p95_ms", LongType()),
        StructField("wait_p99_ms", LongType()),
        StructField("turns", LongType()),
        StructField("turn_p50_ms", LongType()),
        StructField("turn_p95_ms", LongType()),
        StructField("turn_p99_ms", LongType()),
    ]
)
DAY_SCHEMA = StructType([field for field in SCHEMA if field.name != "hour"])
_DAYS = 2
_KEYS = ("day", "hour", "agent")
_DAY_KEYS = ("day", "agent")


def turn_times(events: DataFrame, keys: Sequence[str] = _KEYS) -> DataFrame:
    """One row per (day, hour, agent), with the columns of ``SCHEMA``; or per (day, agent), where *keys* say so.

    Args:
        events: id, type, message_id, agent, data, created_at (timestamp).
    """
    waits = _percentiles(_waits(events), "wait", "waited", keys)
    turns = _percentiles(_turns(events), "turn", "turns", keys)
    joined = waits.join(turns, on=list(keys), how="full")
    return joined.fillna(0, subset=["waited", "turns"])


def turn_times_of_days(events: DataFrame) -> DataFrame:
    """One row per (day, agent), with the columns of ``DAY_SCHEMA``; percentiles of hours can't be added up."""
    return turn_times(events, _DAY_KEYS)


def _waits(events: DataFrame) -> DataFrame:
    """Only the first turn of a message counts: after a wait that costs no attempt, or by hand, it is begun again."""
    batch = F.from_json("data", "batch array<string>")["batch"]
    starts = events.where("type = 'chain_step_start'").select(
        "agent", "created_at", F.explode(batch).alias("message_id")
    )
    first = F.min(F.struct("created_at", "agent")).alias("first")
    started = starts.groupBy("message_id").agg(first).select("message_id", "first.agent", "first.created_at")
    planned = F.timestamp_millis(F.from_json("data", "process_after long")["process_after"])
    received = events.where("type = 'message_received'").select(
        "message_id", F.greatest("created_at", planned).alias("due_at"), F.col("created_at").alias("received_at")
    )
    near = started.join(received, "message_id").where(F.col("received_at") >= F.col("created_at") - interval(_DAYS))
    return near.select("agent", "created_at", _ms("due_at").alias("ms"))


def _turns(events: DataFrame) -> DataFrame:
    done = events.where("type = 'chain_step_done'").select("id", "agent", "message_id", "created_at")
    started = events.where("type = 'chain_step_start'").select(
        F.col("id").alias("start_id"), "message_id", F.col("created_at").alias("started_at")
    )
    pairs = done.join(started, "message_id").where("start_id < id")
    last = pairs.groupBy("id", "agent", "created_at").agg(F.max("started_at").alias("started_at"))
    near = last.where(F.col("started_at") >= F.col("created_at") - interval(_DAYS))
    return near.select("agent", "created_at", _ms("started_at").alias("ms"))


def _ms(since: str) -> Column:
    return F.greatest(F.unix_millis("created_at") - F.unix_millis(since), F.lit(0))


def _percentiles(times: DataFrame, name: str, count: str, keys: Sequence[str]) -> DataFrame:
    known = {"day": F.to_date("created_at"), "hour": F.hour("created_at"), "agent": F.col("agent")}
    found = times.groupBy(*(known[key].alias(key) for key in keys)).agg(
        F.count("*").alias(count), F.percentile_approx("ms", [0.5, 0.95, 0.99]).alias("p")
    )
    ends = [F.col("p")[index].alias(f"{name}_p{p}_ms") for index, p in enumerate((50, 95, 99))]
    return found.select(*keys, count, *ends)


JOB = DailyJob(
    "turn_times",
    "How long messages wait and turns run, by day, hour and agent.",
    SCHEMA,
    3,
    {"events": ("id", "type", "message_id", "agent", "data", "created_at")},
    turn_times,
    days_before=_DAYS,
    version=2,
)
DAY_JOB = DailyJob(
    "turn_times_of_days",
    "How long messages wait and turns run, by day and agent.",
    DAY_SCHEMA,
    2,
    JOB.inputs,
    turn_times_of_days,
    days_before=_DAYS,
    version=2,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job from its command line; return the exit code."""
    return main_of(JOB, argv)
