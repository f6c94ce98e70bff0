"""What is planned, as messages and as responses: it is made, one follows the other, and all are listed."""

import pytest

from shared.core.errors import ClaimLost, ConfigInvalid, NotFound
from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages
from shared.db.queue.schedules.series import ALREADY_LIVE, Next
from shared.queue import series, turns
from shared.queue.series import Change, When
from shared.queue.turns import TurnReply
from tests.shared.queue.series.kinds import DAILY, DAY, NINE, ONCE, Messages, Responses, do, live
from tests.support import NOW, column, dump, plan, put, row, take

# -- making


def test_a_plan_is_due_at_the_first_instant_of_its_grid(kind):
    made = kind.plan(DAILY)
    assert (made.status, made.label, made.recurrence, made.timezone, made.settings.misfire) == (
        *("planned", "report", "0 9 * * *", "UTC", "coalesce"),
    )
    assert (made.scheduled_at, made.due_at) == (NINE, NINE)
    assert series.get(kind.conn, made.series_id) == made
    assert kind.begin(NINE - 1) is None
    assert kind.begin(NINE) is not None


def test_nothing_follows_a_one_time_plan(kind):
    made = kind.plan(ONCE)
    assert (made.recurrence, made.due_at) == (None, NINE)
    kind.finish(kind.begin(NINE), NINE)
    assert column(kind.conn, f"SELECT count(*) FROM {kind.table} WHERE series_id = :id", id=made.series_id) == [1]
    with pytest.raises(NotFound):
        series.get(kind.conn, made.series_id)


REFUSED = {
    "four fields": (When(recurrence="0 9 * *"), "five fields"),
    "seconds": (When(recurrence="0 0 9 * * *"), "five fields"),
    "an hour that does not exist": (When(recurrence="0 25 * * *"), "can't be used"),
    "a zone that does not exist": (When(recurrence="0 9 * * *", timezone="Mars/Olympus"), "Mars/Olympus"),
    "a zone that does not exist, once": (When(due_ms=NINE, timezone="Mars/Olympus"), "Mars/Olympus"),
    "no time at all": (When(), "the schedule has no time"),
}


@pytest.mark.parametrize(("when", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_plan_that_could_never_run_is_refused(kind, when, sentence):
    with pytest.raises(ConfigInvalid, match=sentence):
        kind.plan(when)
    assert column(kind.conn, f"SELECT count(*) FROM {kind.table}") == [0]


# -- one follows the other


def test_an_occurrence_hands_over_once(kind):
    kind.plan(DAILY)
    begun = kind.begin(NINE)
    rows(kind.conn, "DROP TABLE schedule_runs")
    with transaction(kind.conn):
        ended = {"messages": "status = 'completed'", "responses": "status = 'acked', acked_at = 1"}[kind.table]
        rows(kind.conn, f"UPDATE {kind.table} SET {ended}, claimed_by = NULL, lease = NULL WHERE id = 1")
    (finished,) = kind.series.finished(kind.conn, limit=9)
    following = Next(NINE + DAY, finished.recurrence, finished.timezone, finished.settings)
    with transaction(kind.conn):
        kind.series.hand_on(kind.conn, finished.id, following, now_ms=NINE)
    successor = row(kind.conn, kind.table)
    assert [successor[name] for name in ("status", kind.due, "scheduled_at", "retry_count", "message", "agent")] == [
        *("pending", NINE + DAY, NINE + DAY, 0, kind.text_of(begun), row(kind.conn, kind.table, 1)["agent"])
    ]
    assert kind.series.finished(kind.conn, limit=9) == []
    before = dump(kind.conn)
    with pytest.raises(ClaimLost), transaction(kind.conn):
        kind.series.hand_on(kind.conn, finished.id, following, now_ms=NINE)
    assert dump(kind.conn) == before


@pytest.mark.parametrize("for_good", [False, True], ids=["in the end", "at once"])
def test_a_dead_occurrence_does_not_end_its_series_and_its_retries_do_not_shift_the_grid(kind, for_good):
    made = kind.plan(DAILY)
    now = NINE + 17_000
    while (begun := kind.begin(now)) is not None:
        kind.fail(begun, now, for_good=for_good)
        assert len(live(kind)) == 1
        now += 10 * 60_000  # longer than any backoff
        if column(kind.conn, f"SELECT status FROM {kind.table} WHERE id = 1") == ["dead"]:
            break
    assert live(kind) == [(made.series_id, NINE + DAY)]


# -- looking


def test_every_lists_each_series_once_soonest_first_one_time_plans_too(conn):
    tasks, reminders = Messages(conn), Responses(conn)
    daily = tasks.plan(DAILY)
    once = reminders.plan(ONCE._replace(due_ms=NINE - 5))
    later = reminders.plan(DAILY._replace(recurrence="0 12 * * *"))
    begun = tasks.begin(NINE)
    assert series.get(conn, daily.series_id).status == "running"
    do(tasks, series.update, daily.series_id, Change(message="shorter"), now_ms=NINE)
    found = [(each.series_id, each.kind, each.message) for each in series.every(conn)]
    assert found == [
        (once.series_id, "response", "write the report"),
        (later.series_id, "response", "write the report"),
        (daily.series_id, "message", "shorter"),
    ]
    assert begun is not None
    assert len(series.every(conn, limit=1)) == 2
    assert [each.series_id for each in series.every(conn, label="reminder")] == [once.series_id]
    assert series.every(conn, label="of nothing") == []


@pytest.mark.parametrize("name", ["ended", "planned", "every"])
def test_no_statement_reads_the_whole_table(kind, name):
    lines = plan(kind.conn, getattr(kind.series, name), series="s", label=None, limit=9)
    assert [line for line in lines if line.startswith("SCAN") and "USING" not in line] == []


def test_a_retried_series_that_has_not_handed_over_delays_no_settlement(conn):
    """The row that ended carries the recurrence until the next settlement, whoever's that is."""
    fields = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "series_1", "scheduled_at": NOW}
    ended = put(conn, chat="1", **fields)
    with transaction(conn):
        messages.cancel(conn, ended, reason="unwanted", now_ms=NOW)
    live = put(conn, chat="1", process_after=NOW + DAY, **fields)
    put(conn, "hello", chat="2")
    claim = take(conn, chat="2")
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("answer", claim.asked[0])], None, now_ms=NOW)
    assert column(conn, "SELECT id FROM messages WHERE recurrence IS NOT NULL") == [live]
    assert rows(conn, "SELECT message_id, data ->> 'reason' FROM events WHERE type = 'series_ended'") == [
        (row(conn, "messages", ended)["message_id"], ALREADY_LIVE)
    ]
