"""A fresh run over all days and a run for one day give the same rows of that day."""

import json
import os
import random
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

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
from spark_jobs.mart.tables import BY_NAME

pytestmark = [pytest.mark.spark, pytest.mark.long]
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
DAYS = 45
BEGIN = datetime.fromtimestamp(NOON / 1000, UTC).date()
SEEDS = range(7, 13) if "POSTROOM_TEST_ALL_EXAMPLES" in os.environ else (7, 8)
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


def occurrence(chance, at):
    """To a series belongs one message in three."""
    if chance.randrange(3):
        return None, None, None, None
    return chance.choice("stu"), chance.choice(GRIDS), chance.choice((None, "UTC", "Europe/Zurich")), at + HOUR_MS


def rows_of(chance):
    """Messages and responses, each with steps that lie minutes to weeks apart, and the runs of schedules."""
    steps, messages, responses, usage, runs = [], [], [], [], []
    for number in range(60):
        at, name = NOON + chance.randrange(DAYS * DAY_MS), f"m_{number}"
        agent, status = chance.choice("ab"), chance.choice(("pending", "completed", "dead", "paused"))
        who = (chance.choice((None, "a", "b")), chance.choice((None, "c", "d")), chance.choice(("telegram", "discord")))
        state = (status, chance.choice((None, "error", "network")), chance.randrange(4), chance.randrange(2))
        instants = (chance.choice((None, at + 3 * HOUR_MS)), at + HOUR_MS, at)
        sender = chance.choice((None, "1", "2", "3"))
        planned = occurrence(chance, at)
        messages.append((number, name, agent, *who, sender, number % 5, *state, *instants, *planned))
        responses.append((number, f"r_{number}", status, at, *occurrence(chance, at)))
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


@pytest.fixture(scope="module", params=SEEDS)
def tables(request, spark):
    found = {}
    for name, rows in rows_of(random.Random(request.param)).items():
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
