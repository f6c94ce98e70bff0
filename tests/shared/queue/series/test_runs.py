"""When each occurrence was due, and when it was begun."""

import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import fetched_responses
from shared.db.queue.responses import NewResponse
from shared.db.queue.schedules import schedule_runs
from shared.queue import series
from tests.shared.queue.series.kinds import DAILY, DAY, HOUR, NINE, ONCE, Responses, live
from tests.support import NOW, answer, column, put, take


def runs(conn):
    return rows(conn, "SELECT series_id, message_id, due_at, started_at FROM schedule_runs ORDER BY id")


@pytest.mark.parametrize("when", [DAILY, ONCE], ids=["daily", "once"])
def test_each_occurrence_is_recorded_once_with_the_instants_of_its_due_and_of_its_first_try(kind, when):
    made = kind.plan(when)
    kind.fail(kind.begin(NINE + 17), NINE + 18)
    kind.finish(kind.begin(NINE + HOUR), NINE + HOUR)
    expected = [(made.series_id, made.message_id, NINE, NINE + 17)]
    assert runs(kind.conn) == expected
    if when is DAILY:
        following = series.get(kind.conn, made.series_id)
        kind.begin(NINE + DAY + 3)
        assert runs(kind.conn) == [
            *expected,
            (made.series_id, following.message_id, NINE + DAY, NINE + DAY + 3),
        ]


def test_a_run_keeps_the_grid_of_its_own_time_and_the_run_before_it(kind):
    made = kind.plan(DAILY)
    kind.finish(kind.begin(NINE), NINE + HOUR)
    kind.begin(NINE + DAY)
    found = rows(kind.conn, "SELECT recurrence, timezone, made_at, previous_due_at FROM schedule_runs ORDER BY id")
    assert found == [(made.recurrence, "UTC", NOW, None), (made.recurrence, "UTC", NINE + HOUR, NINE)]


def test_a_run_that_was_begun_before_has_its_own_instant_as_the_one_before(kind):
    kind.plan(DAILY)
    known = "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at) VALUES (:series, :name, :due, 1)"
    for name, due in (("other", NINE), ("later", NINE + DAY)):
        rows(kind.conn, known, {"series": live(kind)[0][0], "name": name, "due": due})
    kind.begin(NINE)
    assert column(kind.conn, "SELECT previous_due_at FROM schedule_runs ORDER BY id DESC LIMIT 1") == [NINE]


def test_an_unplanned_message_leaves_no_run(conn):
    put(conn)
    assert take(conn) is not None
    assert Responses(conn).begin(NOW) is None
    answer(conn)
    assert Responses(conn).begin(NOW) is not None
    assert runs(conn) == []


def test_a_rolled_back_claim_leaves_no_run(kind):
    kind.plan(DAILY)
    with transaction(kind.conn):
        rows(kind.conn, "CREATE TRIGGER broken AFTER INSERT ON schedule_runs BEGIN SELECT raise(ABORT, 'x'); END")
    with pytest.raises(apsw.Error):
        kind.begin(NINE)
    assert column(kind.conn, f"SELECT status FROM {kind.table}") == ["pending"]


def test_a_fetched_response_begins_with_its_acknowledgement(conn):
    new = NewResponse("proactive_00000001", "api", "Ana", "report", platform_id="100")
    with transaction(conn):
        made = series.plan_response(conn, new, DAILY, now_ms=NOW)
        fetched_responses.ack(conn, made.id, adapters=(), now_ms=NINE + 5)
    assert runs(conn) == [(made.series_id, "proactive_00000001", NINE, NINE + 5)]


def test_runs_are_pruned_from_the_oldest_in_bounded_steps_and_the_newest_stays(conn):
    with transaction(conn):
        for number in range(6):
            insert = "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at) VALUES ('s', :name, 0, :at)"
            rows(conn, insert, {"name": f"task_{number}", "at": NOW + number})
    for expected in (2, 2, 0):
        with transaction(conn):
            assert schedule_runs.prune(conn, older_than_ms=NOW + 4, limit=2) == expected
    assert column(conn, "SELECT message_id FROM schedule_runs") == ["task_4", "task_5"]
    with transaction(conn):
        assert schedule_runs.prune(conn, older_than_ms=NOW + 99, limit=9) == 1
