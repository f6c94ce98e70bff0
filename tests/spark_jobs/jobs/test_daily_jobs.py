"""The jobs as functions of rows."""

from datetime import date

import pytest
from pyspark.sql import functions as F

from spark_jobs.jobs.agent_pairs import JOB as AGENT_PAIRS
from spark_jobs.jobs.backlog import JOB as BACKLOG
from spark_jobs.jobs.costs import JOB as COSTS
from spark_jobs.jobs.deliveries import JOB as DELIVERIES
from spark_jobs.jobs.failures import JOB as FAILURES
from spark_jobs.jobs.people import JOB as PEOPLE
from spark_jobs.jobs.schedules import JOB as SCHEDULES
from spark_jobs.jobs.schedules import missed_between
from spark_jobs.jobs.turn_times import DAY_JOB
from spark_jobs.jobs.turn_times import JOB as TURN_TIMES

pytestmark = [pytest.mark.spark, pytest.mark.long]
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
NINTH, TENTH = date(2025, 10, 9), date(2025, 10, 10)
INSTANTS = ("created_at", "due_at", "started_at", "process_after", "updated_at")


@pytest.fixture(scope="module")
def frame(spark):
    """A DataFrame of rows, with milliseconds as timestamps."""

    def frame(schema, *rows):
        made = spark.createDataFrame(list(rows), schema)
        for name in set(INSTANTS) & set(made.columns):
            made = made.withColumn(name, F.timestamp_millis(name))
        return made

    return frame


def computed(job, *frames):
    found = job.transform(*frames).select(job.schema.fieldNames())
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in job.schema
    ]
    return sorted(map(tuple, found.collect()), key=lambda row: [str(value) for value in row])


def test_a_wait_ends_with_the_first_turn_and_a_turn_with_its_own_end(frame):
    schema = "id long, type string, message_id string, agent string, data string, created_at long"
    events = frame(
        schema,
        (1, "message_received", "m1", None, "{}", NOON),
        (2, "message_received", "m2", None, f'{{"process_after": {NOON + 500}}}', NOON),
        (3, "chain_step_start", "m1", "a", '{"batch": ["m1", "m2"], "attempt": 1}', NOON + 1000),
        (4, "chain_step_start", "m1", "a", '{"batch": ["m1", "m2"], "attempt": 2}', NOON + 5000),
        (5, "chain_step_done", "m1", "a", '{"batch": ["m1", "m2"], "answers": 1}', NOON + 7000),
        (6, "chain_step_start", "m3", "b", '{"batch": ["m3"], "attempt": 2}', NOON + HOUR_MS),
        (7, "chain_step_done", "m3", "b", "{}", NOON + HOUR_MS + 50),
        (8, "chain_step_start", "m1", "a", '{"batch": ["m1"], "attempt": 1}', NOON + 2 * HOUR_MS),  # again, by hand
    )
    assert computed(TURN_TIMES, events) == [
        (NINTH, 12, "a", 2, 500, 1000, 1000, 1, 2000, 2000, 2000),
        (NINTH, 13, "b", 0, None, None, None, 1, 50, 50, 50),
    ]
    assert computed(DAY_JOB, events) == [
        (NINTH, "a", 2, 500, 1000, 1000, 1, 2000, 2000, 2000),
        (NINTH, "b", 0, None, None, None, 1, 50, 50, 50),
    ]


def test_what_waits_is_counted_by_the_hour_in_which_it_was_due(frame):
    messages = frame(
        "agent string, status string, trigger int, process_after long, created_at long, updated_at long",
        ("a", "pending", 1, None, NOON + 5, NOON + 5),
        ("a", "processing", 1, None, NOON + 6, NOON + 7),
        ("a", "pending", 1, NOON + DAY_MS + 8, NOON, NOON),
        ("a", "pending", 1, NOON - DAY_MS, NOON, NOON),
        ("a", "pending", 0, None, NOON, NOON),
        ("a", "paused", 1, None, NOON, NOON),
        ("a", "completed", 1, None, NOON, NOON + DAY_MS),
        ("a", "dead", 1, None, NOON + HOUR_MS, NOON + DAY_MS),
    )
    assert computed(BACKLOG, messages) == [
        (NINTH, "a", NOON - DAY_MS // 2, TENTH, 2, 0),
        (NINTH, "a", NOON, None, 3, 1),
        (NINTH, "a", NOON + DAY_MS, None, 1, 0),
    ]


def test_failures_are_counted_by_their_cause(frame):
    messages = frame(
        "agent string, failure string, retry_count long, status string, created_at long",
        ("a", "killed", 2, "completed", NOON),
        ("a", "killed", 5, "dead", NOON),
        ("a", None, 0, "completed", NOON + DAY_MS),
    )
    assert computed(FAILURES, messages) == [(NINTH, "a", "killed", 2, 7, 1), (TENTH, "a", "none", 1, 0, 0)]


def test_a_delivery_counts_on_the_day_on_which_it_ends(frame):
    events = frame(
        "type string, response_id long, channel string, data string, created_at long",
        ("response_ready", 1, "telegram", "{}", NOON),
        ("response_retry", 1, "telegram", "{}", NOON + 10),
        ("response_acked", 1, "telegram", "{}", NOON + 100),
        ("response_ready", 2, "telegram", f'{{"deliver_after": {NOON + DAY_MS}}}', NOON),
        ("response_outcome_unknown", 2, "telegram", "{}", NOON + DAY_MS + 5),
        ("response_acked", 2, "telegram", "{}", NOON + DAY_MS + 7),
        ("response_dead", 3, "discord", "{}", NOON),
        ("response_dead", 4, "discord", '{"reason": "the series was cancelled"}', NOON),
    )
    assert computed(DELIVERIES, events) == [
        (NINTH, "discord", 0, 1, 0, 0, None, None, None),
        (NINTH, "telegram", 1, 0, 1, 0, 100, 100, 100),
        (TENTH, "telegram", 1, 0, 0, 1, 7, 7, 7),
    ]


def test_a_person_returns_within_thirty_days(frame):
    messages = frame(
        "channel string, sender_id string, from_agent string, session_id long, created_at long",
        ("telegram", "ann", None, 1, NOON - 40 * DAY_MS),
        ("telegram", "ann", None, 1, NOON),
        ("telegram", "ann", None, 2, NOON + 1),
        ("telegram", "ann", None, 2, NOON + DAY_MS),
        ("telegram", "bob", None, 3, NOON + DAY_MS),
        ("telegram", None, "a", 3, NOON + DAY_MS),
    )
    assert computed(PEOPLE, messages)[1:] == [
        (NINTH, "telegram", 1, 0, 2, 2),
        (TENTH, "telegram", 2, 1, 2, 2),
    ]


def test_conversations_of_agents_that_go_back_and_forth_are_counted(frame):
    messages = frame(
        "from_agent string, agent string, conversation_id string, created_at long",
        ("a", "b", "c1", NOON),
        ("b", "a", "c1", NOON + 1),
        ("a", "b", "c1", NOON + 2),
        ("a", "b", "c2", NOON + 3),
        ("a", "b", None, NOON + 4),
        (None, "a", None, NOON),
        *((start, end, "c3", NOON) for start, end in ("ab", "bc", "ca", "cd")),
    )
    assert computed(AGENT_PAIRS, messages) == [
        (NINTH, "a", "b", 5, 3, 1, 2, 1),
        (NINTH, "b", "a", 1, 1, 1, 1, 0),
        (NINTH, "b", "c", 1, 1, 0, 1, 1),
        (NINTH, "c", "a", 1, 1, 0, 1, 1),
        (NINTH, "c", "d", 1, 1, 0, 1, 0),
    ]


def test_cost_says_how_many_turns_have_no_price(frame):
    usage = frame(
        "agent string, model string, paid_by string, requests long, input long, output long, cache_read long,"
        " cache_write long, cost long, created_at long",
        ("a", "m", "key", 1, 10, 20, 30, 40, 5, NOON),
        ("a", "m", "key", 2, 1, 2, 3, 4, None, NOON),
        ("a", "n", "plan", 1, 1, 1, 1, 1, None, NOON),
    )
    assert computed(COSTS, usage) == [
        (NINTH, "a", "m", "key", 2, 3, 11, 22, 33, 44, 5, 1),
        (NINTH, "a", "n", "plan", 1, 1, 1, 1, 1, 1, 0, 1),
    ]


def test_schedules_are_late_doubled_and_missed(frame):
    runs = frame(
        "series_id string, due_at long, started_at long",
        ("s", NOON, NOON + 10),
        ("s", NOON + HOUR_MS, NOON + HOUR_MS + 30),
        ("s", NOON + HOUR_MS, NOON + HOUR_MS + 40),
        ("s", NOON + 4 * HOUR_MS, NOON + 4 * HOUR_MS + 20),
        ("once", NOON, NOON - 5),
    )
    messages = frame(
        "series_id string, recurrence string, timezone string, created_at long",
        ("s", "0 0 * * *", "UTC", NOON),
        ("s", "0 * * * *", "UTC", NOON + 1),
    )
    assert computed(SCHEDULES, runs, messages) == [(NINTH, "once", 1, 0, 0, 0, 0), (NINTH, "s", 4, 1, 2, 20, 30)]


@pytest.mark.parametrize(
    ("recurrence", "before", "due", "missed"),
    [
        ("0 * * * *", NOON, NOON + HOUR_MS, 0),
        ("0 * * * *", NOON, NOON + 3 * HOUR_MS, 2),
        ("0 * * * *", None, NOON, 0),
        ("no cron", NOON, NOON + HOUR_MS, 0),
        ("* * * * *", NOON, NOON + 40 * DAY_MS, 1000),
    ],
)
def test_missed_runs_are_instants_of_the_grid_between_two_runs(recurrence, before, due, missed):
    assert missed_between(recurrence, "UTC", before, due) == missed
