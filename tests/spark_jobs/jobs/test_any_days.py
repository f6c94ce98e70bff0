"""A fresh run over all days and runs day by day give the same rows of each day."""

import json
import random
from bisect import bisect
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from spark_jobs import daily
from spark_jobs.jobs import (
    agent_pairs,
    backlog,
    costs,
    deliveries,
    failures,
    message_volume,
    people,
    schedules,
    turn_times,
)
from spark_jobs.mart.days import DayWriter
from spark_jobs.mart.frames import open_mart
from spark_jobs.mart.manifest import DayFiles, MartManifest, TableFiles
from spark_jobs.mart.places import opened
from spark_jobs.mart.tables import BY_NAME
from spark_jobs.mart.types import schema_of
from spark_jobs.report.outputs import rows_of as output_of

pytestmark = [pytest.mark.spark, pytest.mark.long]
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
DAYS = 45
BEGIN = datetime.fromtimestamp(NOON / 1000, UTC).date()
POSITIONS = (36, 37, 38, 43, DAYS)  # days after the first: a step of one day depends on days before it
LATE_DAYS = 2
SEED = 7
JOBS = [
    turn_times.JOB,
    turn_times.DAY_JOB,
    deliveries.JOB,
    failures.JOB,
    people.JOB,
    agent_pairs.JOB,
    costs.JOB,
    backlog.JOB,
    message_volume.OVER_MART,
    schedules.JOB,
]
OCCURRENCE = "series_id string, recurrence string, timezone string, scheduled_at long"
SCHEMAS = {
    "events": "id long, type string, message_id string, response_id long, agent string, channel string, data string,"
    " created_at long",
    "messages": "id long, message_id string, agent string, from_agent string, conversation_id string, channel string,"
    " sender_id string, session_id long, status string, failure string, retry_count long, trigger long,"
    f" process_after long, updated_at long, created_at long, {OCCURRENCE}",
    "responses": f"id long, message_id string, status string, created_at long, {OCCURRENCE}",
    "usage": "turn string, agent string, model string, paid_by string, requests long, input long, output long,"
    " cache_read long, cache_write long, cost long, created_at long",
    "schedule_runs": "id long, series_id string, message_id string, recurrence string, timezone string, due_at long,"
    " started_at long, made_at long, previous_due_at long",
}
MESSAGE_TYPES = ("chain_step_start", "chain_step_done", "message_retry", "message_dead", "message_retried")
RESPONSE_TYPES = ("response_ready", "response_acked", "response_dead", "response_retried", "response_retry")
GRIDS = (None, "0 * * * *", "30 */6 * * *", "0 9 * * *", "0 9 1 * *")


def columns_of(table):
    """The names of its columns, each with its type."""
    return dict(each.strip().split(" ") for each in SCHEMAS[table].split(","))


def is_instant(column):
    return column.endswith("_at") or column == "process_after"


def occurrence(chance, at, series):
    """To a series belongs one message in three."""
    if chance.randrange(3):
        return None, None, None, None
    return chance.choice(series), chance.choice(GRIDS), chance.choice((None, "UTC", "Europe/Zurich")), at + HOUR_MS


def rows_of(chance, count, senders="123", series="stu"):
    """Messages and responses, each with steps that lie minutes to weeks apart, and the runs of schedules.

    With few *series*, each has a run within the weeks that the job of schedules looks back.
    """
    steps, messages, responses, usage, runs = [], [], [], [], []
    for number in range(count):
        at, name = NOON + chance.randrange(DAYS * DAY_MS), f"m_{number}"
        agent, status = chance.choice("ab"), chance.choice(("pending", "completed", "dead", "paused"))
        who = (chance.choice((None, "a", "b")), chance.choice((None, "c", "d")), chance.choice(("telegram", "discord")))
        state = (status, chance.choice((None, "error", "network")), chance.randrange(4), chance.randrange(2))
        instants = (chance.choice((None, at + 3 * HOUR_MS)), at + HOUR_MS, at)
        sender = chance.choice((None, *senders))
        planned = occurrence(chance, at, series)
        messages.append((number, name, agent, *who, sender, number % 5, *state, *instants, *planned))
        responses.append((number, f"r_{number}", status, at, *occurrence(chance, at, series)))
        usage.append((name, agent, "m", "key", 1, 2, 3, 4, 5, chance.choice((None, 7)), at))
        if planned[0]:
            due, before = planned[3], chance.choice((None, 0, HOUR_MS, DAY_MS, 40 * DAY_MS))
            made = (chance.choice((None, at)), before if before is None else due - before)
            runs.append((number, planned[0], name, *planned[1:], due + chance.randrange(2 * DAY_MS), *made))
        steps.append((at, "message_received", name, None, agent, "{}"))
        steps.append((at, "response_ready", None, number, agent, "{}"))
        for _ in range(chance.randrange(2, 7)):
            data = {"batch": [name], "failure": chance.choice(("error", "network")), "retry_count": chance.randrange(4)}
            at += int(chance.choice((HOUR_MS, DAY_MS, 5 * DAY_MS, 20 * DAY_MS)) * chance.random() * 2)
            steps.append((at, chance.choice(MESSAGE_TYPES), name, None, agent, json.dumps(data)))
            steps.append((at + 5, chance.choice(RESPONSE_TYPES), None, number, agent, "{}"))
    events = [
        (number, kind, name, response, agent, "telegram", data, at)
        for number, (at, kind, name, response, agent, data) in enumerate(sorted(steps, key=lambda step: step[0]), 1)
    ]
    return {"events": events, "messages": messages, "responses": responses, "usage": usage, "schedule_runs": runs}


@pytest.fixture(scope="module")
def spark(spark):
    """To compile Java for each plan takes a third of the CPU, for a few rows."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    yield spark
    spark.conf.unset("spark.sql.codegen.wholeStage")


@pytest.fixture(scope="module")
def tables(spark):
    found = {}
    for name, rows in rows_of(random.Random(SEED), 120).items():
        made = spark.createDataFrame(rows, SCHEMAS[name])
        for column in filter(is_instant, columns_of(name)):
            made = made.withColumn(column, F.timestamp_millis(column))
        found[name] = made.coalesce(1).cache()
    return found


def computed(job, frames):
    more = {"at_ms": NOON + DAYS * DAY_MS} if job.has_present else {}
    rows = job.transform(*frames, **more).select(job.schema.fieldNames()).collect()
    return sorted(map(tuple, rows), key=str)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_rows_of_a_day_do_not_depend_on_the_days_that_are_read(job, tables):
    """Of the mart a run takes the days that a day needs; a fresh run takes all."""
    inputs = {name: tables[name].select(*columns) for name, columns in job.inputs.items()}
    fresh = computed(job, inputs.values())
    chance = random.Random(job.name)
    for day in (
        BEGIN + timedelta(days=number) for number in (chance.randrange(2, 20), chance.randrange(20, DAYS), DAYS)
    ):
        near = [
            frame.where(F.to_date(BY_NAME[name].by).isin([*job.needed([day.isoformat()], name)]))
            for name, frame in inputs.items()
        ]
        alone = [row for row in computed(job, near) if row[0] == day]
        assert alone == [row for row in fresh if row[0] == day], day
    assert fresh


# -- as the jobs run: over a mart that grows


def batch_of(table, rows):
    """The rows as a mart has them."""
    columns = columns_of(table)
    kinds = {name: "string" if kind == "string" else "int64" for name, kind in columns.items()}
    made = pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema_of(kinds))
    for number, name in enumerate(columns):
        if is_instant(name):
            instants = made.column(number).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
            made = made.set_column(number, name, instants)
    return made


def grown(folder, day, rows, named):
    """The next generation of the mart, with more *rows* of each table, at the end of *day*.

    *named*: the days of rows that events tell of, by table: ``publish`` writes such a row again.
    """
    with opened(str(folder)) as place:
        before = place.begin() or MartManifest("r", "1", "", "", "h", 0, 0, "")
        generation = before.generation + 1
        found = {}
        for name, more in rows.items():
            batch = batch_of(name, more)
            writer = DayWriter(place, name, batch.schema, generation, "run")
            writer.write(batch, BY_NAME[name].by)
            days = dict(before.tables[name].days) if name in before.tables else {}
            for written, new in writer.finish().items():
                old = days.get(written, DayFiles(0, 0, ()))
                days[written] = DayFiles(old.rows + new.rows, generation, (*old.files, *new.files))
            for again in named[name] & days.keys():
                days[again] = replace(days[again], generation=generation)
            found[name] = TableFiles({field.name: str(field.type) for field in batch.schema}, 0, days)
        timestamp = f"{day.isoformat()}T23:59:59Z"
        place.commit(replace(before, generation=generation, timestamp=timestamp, tables=found), before)


def growth(tables, chance):
    """For each position its day, the rows that are new in each table, and the days that new events name.

    Of the last days' rows one in four comes a position late: late rows of all days would make every day be computed
    again, whatever a job says of the days that it depends on. Rows that lie after the last position don't come.
    """
    parts = [{name: [] for name in tables} for _ in POSITIONS]
    ends = [NOON - DAY_MS // 2 + (number + 1) * DAY_MS for number in POSITIONS]
    for name, rows in tables.items():
        place = list(columns_of(name)).index(BY_NAME[name].by)
        for row in rows:
            if row[place] >= ends[-1]:
                continue
            part = bisect(ends, row[place])
            is_late = row[place] >= ends[part] - LATE_DAYS * DAY_MS and chance.randrange(4) == 0
            parts[min(part + is_late, len(parts) - 1)][name].append(row)
    came = {name: {} for name in tables}  # the day of each row that the mart has, by what events name
    for number, rows in zip(POSITIONS, parts, strict=True):
        named = {name: set() for name in tables}
        for event in rows["events"]:
            named["messages"].add(came["messages"].get(event[2]))
            named["responses"].add(came["responses"].get(event[3]))
        yield BEGIN + timedelta(days=number), rows, named
        for name, key in (("messages", "message_id"), ("responses", "id")):
            key, at = (list(columns_of(name)).index(column) for column in (key, "created_at"))
            came[name] |= {row[key]: str(datetime.fromtimestamp(row[at] / 1000, UTC).date()) for row in rows[name]}


def test_a_job_over_a_mart_that_grows_writes_what_a_fresh_run_writes(spark, tmp_path):
    chance = random.Random(SEED)
    for day, rows, named in growth(rows_of(chance, 240, "123456789", "stuvwxyz"), chance):
        grown(tmp_path / "mart", day, rows, named)
        mart = open_mart(spark, str(tmp_path / "mart"))
        for job in JOBS:
            daily.run(job, mart, tmp_path / "grown" / job.name, now_ms=NOON)
    for job in JOBS:
        daily.run(job, mart, tmp_path / "fresh" / job.name, now_ms=NOON)
        written, fresh = (output_of(tmp_path / name / job.name, date.min, job) for name in ("grown", "fresh"))
        assert sorted(map(str, written)) == sorted(map(str, fresh)), job.name
        assert fresh, job.name
