"""The calendar of the schedules: what was due on each day, what became of it, and what is planned."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue.schedules import missed_runs
from shared.db.queue.schedules.missed_runs import MissedRuns
from shared.db.views.schedules import run_calendar
from shared.queue import series, turns
from shared.queue.series import When
from shared.queue.turns import TurnReply
from tests.shared.queue.series.kinds import DAILY, DAY, HOUR, NINE, ONCE, Messages, Responses, do

MIDNIGHT = NINE - 9 * HOUR
MINUTE = 60_000


@pytest.fixture
def task(conn):
    return Messages(conn)


def read(kind, since=MIDNIGHT, days=3, now=NINE + HOUR):
    return run_calendar.read(kind.conn, since, days=days, timezone="UTC", now_ms=now)


def days_of(calendar, number=0):
    return [[(each["state"], each["words"]) for each in day["runs"]] for day in calendar["series"][number]["days"]]


def say(task, begun, text, now_ms):
    with transaction(task.conn):
        turns.settle(task.conn, begun, [TurnReply(text, begun.asked[0])], None, now_ms=now_ms)


def test_a_day_says_what_ran_and_the_next_ones_what_is_planned(task):
    task.plan(DAILY)
    say(task, task.begin(NINE + 2000), "Nothing new.", NINE + 16_000)
    found = read(task)
    (series_,) = found["series"]
    assert (series_["label"], series_["agentId"], series_["cron"]) == ("report", "assistant", "0 9 * * *")
    assert found["days"] == [MIDNIGHT, MIDNIGHT + DAY, MIDNIGHT + 2 * DAY, MIDNIGHT + 3 * DAY]
    assert days_of(found) == [
        [("ran", "ran 09:00:02, 14 s, said: Nothing new.")],
        [("planned", "planned")],
        [("planned", "planned")],
    ]
    assert [day["runs"][0]["dueAt"] for day in series_["days"]] == [NINE, NINE + DAY, NINE + 2 * DAY]


def test_a_late_run_stands_at_the_instant_at_which_it_was_due(task):
    task.plan(DAILY)
    task.finish(task.begin(NINE + DAY - HOUR), NINE + DAY - HOUR + 1000)  # on the next day
    found = read(task, days=1, now=NINE + DAY)
    assert days_of(found) == [[("late", "ran 08:00:00 (23 h late), 1 s, said: done")]]
    assert found["series"][0]["days"][0]["late"] == 1


def test_what_failed_is_counted_and_has_the_story_of_its_message(task):
    task.plan(DAILY)
    begun = task.begin(NINE)
    task.fail(begun, NINE + 1000, for_good=True)
    (day, *_) = read(task)["series"][0]["days"]
    assert (day["total"], day["failed"]) == (1, 1)
    (run,) = day["runs"]
    assert (run["state"], run["words"]) == ("failed", "ran 09:00:00, 1 s, failed: broken")
    assert run["messageId"] == begun.batch[0].message_id


def test_instants_without_a_run_are_missed_or_skipped(task):
    made = task.plan(When(recurrence="0 * * * *", label="hourly"))
    say(task, task.begin(NINE + 2 * HOUR), "late", NINE + 2 * HOUR + 1000)
    do(task, series.cancel, made.series_id, now_ms=NINE + 3 * HOUR + 1)
    found = read(task, days=1, now=NINE + 4 * HOUR)
    (day,) = found["series"][0]["days"]
    assert [(each["state"], each["count"]) for each in day["runs"]] == [("late", 1), ("skipped", 2), ("missed", 1)]
    assert (day["total"], day["missed"]) == (4, 3)
    assert found["series"][0]["label"] == "hourly", "of a series that has ended, by its newest run"


def test_what_is_due_and_has_not_begun_says_why(task):
    task.plan(DAILY)
    (run,) = read(task, days=1, now=NINE + 5 * MINUTE)["series"][0]["days"][0]["runs"]
    assert run["state"] == "waits"
    assert run["words"].startswith("due for 5 min: ")
    assert len(run["words"]) > len("due for 5 min: ")


def test_a_paused_schedule_plans_nothing(task):
    made = task.plan(DAILY)
    do(task, series.pause, made.series_id, now_ms=NINE)
    assert read(task)["series"] == []


def test_schedules_of_a_single_time_share_a_line(task):
    task.plan(ONCE)
    task.plan(ONCE._replace(due_ms=NINE + HOUR, label="another"))
    task.finish(task.begin(NINE), NINE + 1000)
    (line,) = read(task, days=1, now=NINE + MINUTE)["series"]
    assert (line["id"], [each["state"] for each in line["days"][0]["runs"]]) == ("once", ["ran", "planned"])


def test_a_text_without_an_agent_is_in_the_calendar_without_a_story(conn):
    text = Responses(conn)
    text.plan(DAILY)
    text.finish(text.begin(NINE + 1000), NINE + 2000)
    (run,) = read(text, days=1)["series"][0]["days"][0]["runs"]
    assert (run["state"], run["words"], run["messageId"]) == ("ran", "sent 09:00:01", None)


def test_a_schedule_of_every_minute_tells_what_went_wrong_and_the_newest_and_counts_the_others(task):
    made = task.plan(When(recurrence="* * * * *", label="busy"))
    with transaction(task.conn):
        rows(task.conn, "DELETE FROM schedule_runs")
        for number in range(600):
            late = 2 * MINUTE if number == 3 else 0
            run = (made.series_id, f"task_{number}", NINE + number * MINUTE, NINE + number * MINUTE + late)
            rows(
                task.conn,
                "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone)"
                " VALUES (?, ?, ?, ?, '* * * * *', 'UTC')",
                run,
            )
    day, following, _ = read(task, now=NINE + 600 * MINUTE)["series"][0]["days"]
    assert (day["late"], day["hasMore"]) == (1, True)
    assert len(day["runs"]) == run_calendar.SHOWN
    assert day["total"] >= 600
    assert [each["dueAt"] for each in day["runs"] if each["state"] == "late"] == [NINE + 3 * MINUTE]
    assert NINE + 599 * MINUTE in [each["dueAt"] for each in day["runs"]]
    assert (len(following["runs"]), following["planned"], following["hasMore"]) == (12, 12, True)


@pytest.mark.parametrize("days", [7, 14])
def test_with_many_series_a_day_tells_fewer_runs_and_counts_all(task, days):
    with transaction(task.conn):
        rows(
            task.conn,
            """
            WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1199)
            INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone)
            SELECT 'series_' || (n % 200), 'task_' || n, :nine + n, :nine + n + iif(n < 200, 60000, 0),
                   '0 9 * * *', 'UTC'
              FROM numbers
            """,
            {"nine": NINE},
        )
    series = read(task, days=days)["series"]
    full = [each for one in series for each in one["days"] if each["total"]]
    assert [(day["total"], day["late"]) for day in full] == [(6, 1)] * 200
    assert [[run["state"] for run in day["runs"]] for day in full] == [["late"]] * 200


def test_what_became_of_many_runs_is_read_in_a_few_statements(task):
    sql = """
        INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone)
        VALUES ('series_' || (:n % 30), 'task_' || :n, :nine + :n, :nine + :n, '0 9 * * *', 'UTC')
    """
    with transaction(task.conn):
        for number in range(300):
            rows(task.conn, sql, {"n": number, "nine": NINE})
    statements = []
    task.conn.set_exec_trace(lambda _, sql, __: statements.append(sql) or True)
    found = read(task)
    task.conn.set_exec_trace(None)
    assert sum(len(day["runs"]) for one in found["series"] for day in one["days"]) >= 200
    assert len(statements) < 100


def test_a_full_calendar_says_since_when_it_is_complete_and_reads_no_row_of_before(task):
    made = task.plan(DAILY)
    sql = """
        WITH RECURSIVE many (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM many WHERE n < 30000)
        INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone)
        SELECT :series, 'task_' || n, :start + n * 1000, :start + n * 1000, '* * * * *', 'UTC' FROM many
    """
    start = MIDNIGHT - 20_000 * 1000
    with transaction(task.conn):
        rows(task.conn, sql, {"series": made.series_id, "start": start})
    found = read(task, days=1)
    assert found["completeSince"] == MIDNIGHT + 1000 * (10_000 - run_calendar.LARGEST + 1)
    assert sum(day["total"] for day in found["series"][0]["days"]) >= run_calendar.LARGEST


def test_missed_runs_of_a_day_long_ago_are_found_there(task):
    made = task.plan(DAILY)
    with transaction(task.conn):
        grid = ("0 9 * * *", "UTC", "too_late")
        old = MissedRuns(made.series_id, made.message_id, NINE - 30 * DAY, None, *grid, noted_at=NINE - 30 * DAY + 1)
        missed_runs.note(task.conn, old)
    found = read(task, since=MIDNIGHT - 31 * DAY, days=2)
    assert days_of(found) == [[], [("missed", "missed 09:00:00: it could not begin in time")]]
    assert "missed" not in str(days_of(read(task, days=1)))
