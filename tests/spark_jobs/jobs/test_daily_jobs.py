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
from spark_jobs.jobs.schedules import LATE_MS, missed_between, missed_until
from spark_jobs.jobs.turn_times import DAY_JOB
from spark_jobs.jobs.turn_times import JOB as TURN_TIMES

pytestmark = [pytest.mark.spark, pytest.mark.long]
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
NINTH, TENTH = date(2025, 10, 9), date(2025, 10, 10)
INSTANTS = (
    *("created_at", "due_at", "started_at", "process_after", "updated_at", "scheduled_at", "made_at"),
    "previous_due_at",
)


@pytest.fixture(scope="module")
def frame(spark):
    """A DataFrame of rows, with milliseconds as timestamps."""

    def frame(schema, *rows):
        made = spark.createDataFrame(list(rows), schema)
        for name in set(INSTANTS) & set(made.columns):
            made = made.withColumn(name, F.timestamp_millis(name))
        return made

    return frame


def computed(job, *frames, **more):
    found = job.transform(*frames, **more).select(job.schema.fieldNames())
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


def failed(number, message, failure, retry_count, kind="message_retry"):
    """An event; of an earlier release where *failure* is None."""
    cause = f'"failure": "{failure}", ' if failure else ""
    return (number, kind, message, f'{{"reason": "r", {cause}"retry_count": {retry_count}}}')


@pytest.fixture
def failures(frame):
    """The job over rows of messages, each (id, failure, retry_count, status), and events."""
    schema = "message_id string, agent string, failure string, retry_count long, status string, created_at long"
    event = "id long, type string, message_id string, data string, created_at long"

    def failures(messages, *events):
        rows = [(id_, "a", failure, count, status, NOON) for id_, failure, count, status in messages]
        return computed(FAILURES, frame(schema, *rows), frame(event, *((*each, NOON + each[0]) for each in events)))

    return failures


def test_each_failed_attempt_is_counted_under_its_own_cause(failures):
    messages = [("m1", "killed", 3, "dead"), ("m2", None, 1, "completed"), ("m3", None, 0, "completed")]
    found = failures(
        messages,
        failed(1, "m1", "network", 1),
        failed(2, "m2", "network", 1),
        failed(3, "m1", "error", 2),
        failed(4, "m1", "killed", 3, "message_dead"),
    )
    assert found == [
        (NINTH, "a", "error", 0, 1, 0),
        (NINTH, "a", "killed", 1, 1, 1),
        (NINTH, "a", "network", 0, 2, 0),
        (NINTH, "a", "none", 2, 0, 0),
    ]


def test_attempts_that_an_earlier_release_recorded_have_the_cause_of_the_row(failures):
    messages = [("m1", "killed", 5, "dead"), ("m2", "killed", 3, "pending"), ("m3", None, 2, "completed")]
    found = failures(
        messages,
        failed(3, "m2", None, 2),  # the event of the first attempt is pruned
        failed(5, "m2", "network", 3),
        failed(6, "m3", None, 1),
        failed(7, "m3", None, 2),
    )
    assert found == [
        (NINTH, "a", "killed", 2, 7, 1),
        (NINTH, "a", "network", 0, 1, 0),
        (NINTH, "a", "none", 1, 0, 0),
        (NINTH, "a", "unknown", 0, 2, 0),
    ]


def test_a_wait_is_no_failed_attempt_and_a_retry_by_hand_begins_again(failures):
    found = failures(
        [("m1", None, 0, "completed")],
        failed(1, "m1", "rate_limited", 0),
        failed(2, "m1", "auth", 1, "message_dead"),
        (3, "message_retried", "m1", "{}"),
        failed(4, "m1", "network", 1),
        failed(5, "m1", "rate_limited", 1),
    )
    assert found == [(NINTH, "a", "auth", 0, 1, 0), (NINTH, "a", "network", 0, 1, 0), (NINTH, "a", "none", 1, 0, 0)]


def test_an_occurrence_that_gets_another_instant_begins_again(failures):
    found = failures(
        [(f"m{number}", None, 1, "completed") for number in range(1, 5)],
        failed(0, "m4", "network", 1),
        failed(1, "m1", "network", 1),
        failed(2, "m2", "network", 1),
        failed(3, "m3", "network", 1),
        (4, "series_updated", "m1", '{"series_id": "s", "changed": ["message", "recurrence"], "due": 5}'),
        (5, "series_resumed", "m2", '{"series_id": "s", "due": 5}'),
        (5, "series_updated", "m4", '{"series_id": "s", "changed": [], "due": 5}'),
        (6, "series_updated", "m3", '{"series_id": "s", "changed": ["message"], "due": 5}'),
        failed(7, "m1", "error", 1),
        failed(8, "m2", "error", 1),
        failed(9, "m3", "rate_limited", 1),
        failed(10, "m4", "error", 1),
    )
    assert found == [(NINTH, "a", "error", 0, 3, 0), (NINTH, "a", "network", 0, 4, 0), (NINTH, "a", "none", 4, 0, 0)]


DELIVERY = "id long, type string, response_id long, channel string, data string, created_at long"


def test_a_delivery_counts_on_the_day_on_which_it_ends(frame):
    events = frame(
        DELIVERY,
        (1, "response_ready", 1, "telegram", "{}", NOON),
        (2, "response_retry", 1, "telegram", "{}", NOON + 10),
        (3, "response_acked", 1, "telegram", "{}", NOON + 100),
        (4, "response_ready", 2, "telegram", f'{{"deliver_after": {NOON + DAY_MS}}}', NOON),
        (5, "response_outcome_unknown", 2, "telegram", "{}", NOON + DAY_MS + 5),
        (6, "response_acked", 2, "telegram", "{}", NOON + DAY_MS + 7),
        (7, "response_dead", 3, "discord", "{}", NOON),
        (8, "response_dead", 4, "discord", '{"reason": "the series was cancelled"}', NOON),
        (9, "response_dead", 5, "discord", '{"failure": "called_off"}', NOON),
    )
    assert computed(DELIVERIES, events) == [
        (NINTH, "discord", 0, 1, 0, 0, 1, None, None, None),
        (NINTH, "telegram", 1, 0, 1, 0, 0, 100, 100, 100),
        (TENTH, "telegram", 1, 0, 0, 1, 0, 7, 7, 7),
    ]


def test_an_answer_that_was_retried_or_deleted_by_hand_is_no_longer_dead(frame):
    events = frame(
        DELIVERY,
        *((number, "response_dead", number, "discord", "{}", NOON) for number in (1, 2, 3, 4)),
        (5, "response_retried", 1, "discord", "{}", NOON + DAY_MS),
        (6, "response_acked", 1, "discord", "{}", NOON + DAY_MS),
        (7, "response_deleted", 2, "discord", "{}", NOON + DAY_MS),
        (8, "response_retried", 3, "discord", "{}", NOON + DAY_MS),
        (9, "response_dead", 3, "discord", "{}", NOON + DAY_MS),
    )
    assert [row[:7] for row in computed(DELIVERIES, events)] == [
        (NINTH, "discord", 0, 4, 0, 0, 1),
        (TENTH, "discord", 1, 1, 0, 0, 1),
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


RUN = (
    "series_id string, due_at long, started_at long, recurrence string, previous_due_at long, made_at long,"
    " timezone string"
)
OCCURRENCE = (
    "series_id string, recurrence string, timezone string, status string, scheduled_at long, created_at long,"
    " message_id string"
)


@pytest.fixture
def of_series(frame):
    """A frame of runs or occurrences; a row may end before its message_id."""
    return lambda schema, *rows: frame(schema, *(row + (None,) * (schema.count(",") + 1 - len(row)) for row in rows))


def test_schedules_are_late_doubled_and_missed(of_series):
    runs = of_series(
        RUN,
        ("s", NOON, NOON + 10, "0 0 * * *"),
        ("s", NOON + HOUR_MS, NOON + HOUR_MS + 30, "0 * * * *", NOON),
        ("s", NOON + HOUR_MS, NOON + HOUR_MS + 40, "0 * * * *", NOON + HOUR_MS),
        ("s", NOON + 4 * HOUR_MS, NOON + 4 * HOUR_MS + 20, "0 * * * *", NOON + HOUR_MS),
        ("once", NOON, NOON - 5, None, None, NOON),
        ("of an earlier release", NOON, NOON),
    )
    messages = of_series(
        OCCURRENCE,
        ("s", "0 0 * * *", "UTC", "completed", NOON, NOON),
        ("s", "0 * * * *", "UTC", "pending", NOON + 5 * HOUR_MS, NOON + 1),
    )
    found = computed(SCHEDULES, runs, messages, of_series(OCCURRENCE), at_ms=NOON + 4 * HOUR_MS + 50)
    assert found == [
        (NINTH, "of an earlier release", 1, 0, None, 0, 0),
        (NINTH, "once", 1, 0, 0, 0, 0),
        (NINTH, "s", 4, 1, 2, 20, 30),
    ]


def test_an_occurrence_that_was_begun_again_on_another_day_counts_there(of_series):
    runs = of_series(
        RUN,
        ("s", NOON, NOON, "0 * * * *", NOON - HOUR_MS),
        ("s", NOON, NOON + DAY_MS, "0 * * * *", NOON),
    )
    nothing = of_series(OCCURRENCE)
    found = computed(SCHEDULES, runs, nothing, nothing, at_ms=NOON + DAY_MS)
    assert found == [(NINTH, "s", 1, 0, 0, 0, 0), (TENTH, "s", 1, 1, 0, None, None)]


def test_what_was_missed_since_the_last_run_counts_on_the_day_of_the_position(of_series):
    hourly = "0 * * * *"
    runs = of_series(
        RUN, ("late", NOON, NOON + 10, hourly), ("reminder", NOON, NOON, hourly), ("well", NOON, NOON, hourly)
    )
    messages = of_series(
        OCCURRENCE,
        ("late", "0 * * * *", "UTC", "completed", NOON, NOON - HOUR_MS),
        ("late", "0 * * * *", "UTC", "pending", NOON + HOUR_MS, NOON + 10),
        ("new", "0 */6 * * *", "UTC", "pending", NOON + 6 * HOUR_MS, NOON),
        ("well", "0 0 * * *", "UTC", "pending", NOON + DAY_MS // 2, NOON),
        (None, None, None, "pending", None, NOON),
    )
    responses = of_series(OCCURRENCE, ("reminder", "30 * * * *", "UTC", "pending", NOON + HOUR_MS // 2, NOON))
    at_ms = NOON + DAY_MS // 2 + LATE_MS - 1  # 0:05 of the tenth, less a millisecond: what was due at 0:00 may be late
    assert computed(SCHEDULES, runs, messages, responses, at_ms=at_ms) == [
        (NINTH, "late", 1, 0, 0, 10, 10),
        (NINTH, "reminder", 1, 0, 0, 0, 0),
        (NINTH, "well", 1, 0, 0, 0, 0),
        (TENTH, "late", 0, 0, 11, None, None),
        (TENTH, "new", 0, 0, 1, None, None),
        (TENTH, "reminder", 0, 0, 12, None, None),
    ]


def test_a_series_that_is_paused_or_has_ended_misses_nothing(of_series):
    hourly = ("0 * * * *", "UTC")
    messages = of_series(
        OCCURRENCE,
        ("paused", *hourly, "completed", NOON, NOON),
        ("paused", *hourly, "paused", NOON + HOUR_MS, NOON + 1),
        ("cancelled", *hourly, "completed", NOON, NOON),  # the mart has not seen that it handed on its recurrence
        ("cancelled", None, "UTC", "cancelled", NOON + HOUR_MS, NOON + 1),
        ("last", None, "UTC", "pending", NOON + HOUR_MS, NOON + 1),
    )
    assert computed(SCHEDULES, of_series(RUN), messages, of_series(OCCURRENCE), at_ms=NOON + 9 * HOUR_MS) == []


def test_what_a_series_passes_over_after_its_next_occurrence_is_made_is_not_missed(of_series):
    """It was paused and resumed, or its schedule was changed, or the occurrence was cancelled by hand."""
    runs = of_series(
        RUN,
        ("resumed", NOON + 9 * HOUR_MS, NOON + 9 * HOUR_MS, "0 * * * *", NOON, NOON + 1),
        ("down", NOON + 9 * HOUR_MS, NOON + 9 * HOUR_MS, "0 * * * *", NOON, NOON + 8 * HOUR_MS + 1),
    )
    nothing = of_series(OCCURRENCE)
    found = computed(SCHEDULES, runs, nothing, nothing, at_ms=NOON + 9 * HOUR_MS)
    assert [(series, missed) for _, series, _, _, missed, *_ in found] == [("down", 8), ("resumed", 0)]


@pytest.mark.parametrize(
    ("status", "last_due", "until", "missed"),
    [
        ("pending", None, NOON - 1, 0),
        ("pending", None, NOON, 1),
        ("pending", NOON - 5 * HOUR_MS, NOON + 2 * HOUR_MS, 3),
        ("processing", NOON, NOON + 2 * HOUR_MS - 1, 1),
        ("cancelled", None, NOON + HOUR_MS, 1),
        ("pending", None, NOON + 90 * DAY_MS, 1000),
    ],
    ids=["not due", "due", "its own and two more", "it runs", "left out by hand", "at most"],
)
def test_occurrences_are_missed_from_the_newest_one_on(status, last_due, until, missed):
    assert missed_until("0 * * * *", "UTC", status, NOON, last_due, until) == missed


def test_a_series_without_a_usable_grid_misses_only_the_occurrence_that_is_known():
    assert missed_until("no cron", None, "pending", NOON, None, NOON + DAY_MS) == 1


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
