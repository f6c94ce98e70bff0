"""What became of each run of a schedule is told in words, also when its message is pruned."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages
from shared.db.views.schedules import runs
from shared.queue import cancellations, series, turns
from shared.queue.series import When
from shared.queue.turns import TurnReply
from tests.shared.queue.series.kinds import DAILY, DAY, HOUR, NINE, Messages, Responses, do
from tests.support import column

ON_TIME = NINE + 2000


@pytest.fixture
def task(conn):
    return Messages(conn)


def told(kind, series_id, now=NINE + HOUR):
    return [(each["outcome"], each["words"]) for each in runs.of_series(kind.conn, series_id, now_ms=now, limit=9)]


def say(task, begun, text, now_ms):
    with transaction(task.conn):
        replies = [TurnReply(text, begun.asked[0])] if text else []
        turns.settle(task.conn, begun, replies, None, now_ms=now_ms)


def prune(task):
    with transaction(task.conn):
        rows(task.conn, "DELETE FROM responses")
        messages.prune(task.conn, after_id=0, older_than_ms=NINE + 9 * DAY, limit=99)


def test_a_run_says_when_it_ran_how_long_it_took_and_what_it_said(task):
    made = task.plan(DAILY)
    say(task, task.begin(ON_TIME), "Nothing new\nin the inbox.", ON_TIME + 14_000)
    expected = [("answered", "ran 09:00:02, 14 s, said: Nothing new in the inbox.")]
    assert told(task, made.series_id) == expected
    prune(task)
    assert column(task.conn, "SELECT count(*) FROM messages WHERE status = 'completed'") == [0]
    assert told(task, made.series_id) == expected


def test_a_long_answer_is_cut(task):
    made = task.plan(DAILY)
    say(task, task.begin(ON_TIME), "x" * 300, ON_TIME)
    (view,) = runs.of_series(task.conn, made.series_id, now_ms=ON_TIME, limit=9)
    assert view["said"] == "x" * 199 + "…"


def test_a_run_that_began_late_says_so(task):
    made = task.plan(DAILY)
    say(task, task.begin(NINE + HOUR), None, NINE + HOUR + 1)
    assert told(task, made.series_id, NINE + 2 * HOUR) == [("silent", "ran 10:00:00 (1 h late), 1 s, said nothing")]


def test_the_clock_is_that_of_the_schedule(task):
    made = task.plan(When(recurrence="0 10 * * *", timezone="Europe/Zurich"))
    say(task, task.begin(ON_TIME), "done", ON_TIME + 1000)
    assert told(task, made.series_id) == [("answered", "ran 10:00:02, 1 s, said: done")]


def test_a_run_under_way_and_one_that_waits_are_told_apart(task):
    made = task.plan(DAILY)
    begun = task.begin(ON_TIME)
    assert told(task, made.series_id) == [("running", "runs since 09:00:02")]
    task.fail(begun, ON_TIME)
    assert told(task, made.series_id) == [("waits", "began 09:00:02, waits for another attempt: broken")]


def test_a_dead_run_says_why_and_a_retry_by_hand_what_came_of_it(task):
    made = task.plan(DAILY)
    task.fail(task.begin(ON_TIME), ON_TIME + 18_000, for_good=True)
    assert told(task, made.series_id) == [("failed", "ran 09:00:02, 18 s, failed: broken")]
    prune(task)
    assert told(task, made.series_id) == [("failed", "ran 09:00:02, 18 s, failed: broken")]


def test_a_run_that_was_stopped_by_hand_says_by_what(task):
    made = task.plan(DAILY)
    begun = task.begin(ON_TIME)
    with transaction(task.conn):
        cancellations.cancel(task.conn, begun.asked[0].id, reason="cancelled by hand", now_ms=ON_TIME + 3000)
    assert told(task, made.series_id) == [("cancelled", "ran 09:00:02, 3 s, was cancelled: cancelled by hand")]


def test_what_was_missed_stands_between_the_runs_also_when_the_series_has_ended(task):
    made = task.plan(When(recurrence="0 * * * *"))
    begun = task.begin(NINE + 2 * HOUR)
    say(task, begun, "late", NINE + 2 * HOUR + 1000)
    do(task, series.cancel, made.series_id, now_ms=NINE + 3 * HOUR + 1)
    assert told(task, made.series_id, NINE + 4 * HOUR) == [
        ("missed", "missed 12:00:00: it had not begun when the schedule was cancelled"),
        (
            "missed",
            "missed 10:00:00 and later, 2 runs until 2027-01-15 11:00:00: another run, late or long, replaced it",
        ),
        ("answered", "ran 11:00:00 (2 h late), 1 s, said: late"),
    ]


def test_a_text_without_an_agent_is_sent_or_not(conn):
    text = Responses(conn)
    made = text.plan(DAILY)
    begun = text.begin(ON_TIME)
    assert told(text, made.series_id) == [("waits", "began 09:00:02, waits for another attempt")]
    text.finish(begun, ON_TIME)
    text.fail(text.begin(NINE + DAY), NINE + DAY + 1000, for_good=True)
    assert told(text, made.series_id, NINE + DAY) == [
        ("failed", "ran 09:00:00, 1 s, failed: broken"),
        ("sent", "sent 09:00:02"),
    ]


def test_what_a_run_took_from_models_is_counted(task):
    made = task.plan(DAILY)
    begun = task.begin(ON_TIME)
    used = """
        INSERT INTO usage (turn, agent, session, model, paid_by, requests, input, output, cache_read, cache_write,
                           messages, created_at, updated_at)
        VALUES ('turn_a', 'assistant', 's', 'm', 'key', 2, 10, 20, 30, 40, json_array(:id), :at, :at)
    """
    rows(task.conn, used, {"id": begun.asked[0].message_id, "at": ON_TIME + 500})
    say(task, begun, "done", ON_TIME + 1000)
    (view,) = runs.of_series(task.conn, made.series_id, now_ms=NINE + HOUR, limit=9)
    assert (view["requests"], view["tokens"]) == (2, 100)


def test_answers_of_tasks_are_found_by_their_index(conn):
    plan = str(rows(conn, f"EXPLAIN QUERY PLAN {runs._ANSWERS}", {"ids": '["task_1"]'}))
    assert "agent_messages_of_tasks" in plan
    assert "SCAN agent_messages" not in plan
    notes = str(rows(conn, f"EXPLAIN QUERY PLAN {runs._NOTES}", {"ids": '["task_1"]', "types": "[]"}))
    assert "events_of_note" in notes
