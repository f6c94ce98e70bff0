"""An instant of a schedule that gets no run is a row with its reason, whatever the schedule does about it."""

import json

import pytest

from shared.core.errors import ConfigInvalid
from shared.core.time import cron
from shared.db.engine.connection import rows, transaction
from shared.db.queue.schedules import missed_runs
from shared.db.queue.schedules.settings import ScheduleSettings
from shared.queue import series
from shared.queue.series import CALLED_OFF, TOO_LATE, Change, When
from tests.shared.queue.series.kinds import DAY, HOUR, NINE, Responses, do, live, told
from tests.support import NOW, column

MINUTE = 60_000
SKIP = ScheduleSettings("skip")


def daily(**settings):
    return When(recurrence="0 9 * * *", settings=ScheduleSettings(**settings))


def hourly(**settings):
    return When(recurrence="0 * * * *", settings=ScheduleSettings(**settings))


def missed(kind):
    """The rows, without what names their series."""
    return rows(kind.conn, "SELECT due_at, until_at, reason, noted_at FROM missed_runs ORDER BY id")


def due_of(kind):
    return column(kind.conn, f"SELECT scheduled_at FROM {kind.table} WHERE recurrence IS NOT NULL")


def test_skip_leaves_out_a_run_that_was_missed_and_says_so(kind):
    made = kind.plan(daily(misfire="skip"))
    assert kind.begin(NINE + 5 * MINUTE + 1) is None
    assert live(kind) == [(made.series_id, NINE + DAY)]
    assert missed(kind) == [(NINE, NINE + DAY, "too_late", NINE + 5 * MINUTE + 1)]
    assert told(kind, "series_missed") == [{"series_id": made.series_id, "reason": "too_late", "due": NINE}]
    assert kind.begin(NINE + DAY) is not None


def test_skip_allows_the_minutes_that_a_turn_before_may_take(kind):
    kind.plan(daily(misfire="skip"))
    assert kind.begin(NINE + 5 * MINUTE) is not None
    assert missed(kind) == []


@pytest.mark.parametrize("misfire", ["coalesce", "catch_up", "skip"])
def test_a_run_may_be_as_late_as_its_grace_and_no_later(kind, misfire):
    kind.plan(daily(misfire=misfire, grace_ms=HOUR))
    assert kind.begin(NINE + HOUR + 1) is None
    assert missed(kind) == [(NINE, NINE + DAY, "too_late", NINE + HOUR + 1)]
    assert kind.begin(NINE + DAY + HOUR) is not None


def test_analysis_finds_the_gap_of_what_was_too_late_in_the_run_that_follows(kind):
    """It looks for missed instants up to the one at which the occurrence got its own."""
    kind.plan(daily(misfire="skip"))
    kind.finish(kind.begin(NINE), NINE)
    assert kind.begin(NINE + 3 * DAY + HOUR) is None
    assert kind.begin(NINE + 4 * DAY) is not None
    assert rows(kind.conn, "SELECT due_at, made_at, previous_due_at FROM schedule_runs ORDER BY id DESC LIMIT 1") == [
        (NINE + 4 * DAY, NINE + 3 * DAY + HOUR, NINE),
    ]


def test_without_a_grace_a_run_is_never_too_late(kind):
    kind.plan(daily())
    assert kind.begin(NINE + 9 * DAY) is not None
    assert missed(kind) == []


@pytest.mark.parametrize("misfire", ["coalesce", "skip"])
def test_of_many_missed_runs_the_first_in_time_stands_for_the_rest(kind, misfire):
    kind.plan(hourly(misfire=misfire, grace_ms=10 * MINUTE))
    now = NINE + 3 * HOUR + 5 * MINUTE
    begun = kind.begin(now)
    assert due_of(kind) == [NINE + 3 * HOUR]
    kind.finish(begun, now)
    assert due_of(kind) == [NINE + 4 * HOUR]
    assert missed(kind) == [(NINE, NINE + 3 * HOUR, "too_late", now)]


def test_catch_up_with_a_grace_runs_what_is_not_too_late_oldest_first(kind):
    kind.plan(hourly(misfire="catch_up", grace_ms=2 * HOUR))
    now, ran = NINE + 3 * HOUR + 30 * MINUTE, []
    while begun := kind.begin(now):
        ran += due_of(kind)
        kind.finish(begun, now)
    assert ran == [NINE + 2 * HOUR, NINE + 3 * HOUR]
    assert missed(kind) == [(NINE, NINE + 2 * HOUR, "too_late", now)]


def test_what_one_late_run_stands_for_is_kept(kind):
    made = kind.plan(hourly())
    begun = kind.begin(NINE + 2 * HOUR + 1)
    kind.finish(begun, NINE + 3 * HOUR)
    assert live(kind) == [(made.series_id, NINE + 4 * HOUR)]
    assert missed(kind) == [(NINE + HOUR, NINE + 4 * HOUR, "coalesced", NINE + 3 * HOUR)]
    (row,) = missed_runs.newest(kind.conn, made.series_id, limit=9)
    instants = cron.between(row.recurrence, row.timezone, due_ms=row.due_at, until_ms=row.until_at, most=9)
    assert instants == [NINE + HOUR, NINE + 2 * HOUR, NINE + 3 * HOUR]


def test_a_retry_is_not_late_because_its_run_began_in_time(kind):
    kind.plan(daily(misfire="skip"))
    kind.fail(kind.begin(NINE), NINE)
    assert kind.begin(NINE + HOUR) is not None
    assert missed(kind) == []


def test_a_run_that_was_given_back_is_not_late_either(kind):
    kind.plan(daily(misfire="skip"))
    kind.begin(NINE)
    with transaction(kind.conn):
        rows(
            kind.conn,
            f"UPDATE {kind.table} SET status = 'pending', claimed_by = NULL, lease = NULL"
            + (", part_started = NULL" if kind.table == "responses" else ""),
        )
    assert kind.begin(NINE + HOUR) is not None


def test_a_plan_for_once_that_is_too_late_ends_with_its_reason(kind):
    made = kind.plan(When(due_ms=NINE, settings=SKIP))
    assert kind.begin(NINE + HOUR) is None
    assert missed(kind) == [(NINE, None, "too_late", NINE + HOUR)]
    ended = {"messages": "cancelled", "responses": "dead"}[kind.table]
    assert rows(
        kind.conn, f"SELECT status, last_error FROM {kind.table} WHERE series_id = :s", {"s": made.series_id}
    ) == [(ended, TOO_LATE)]


def test_a_late_occurrence_does_not_hold_back_what_waits_behind_it(kind):
    kind.plan(daily(misfire="skip"), text="too late")
    kind.plan(When(due_ms=NINE), text="still wanted")
    begun = kind.begin(NINE + HOUR) or kind.begin(NINE + HOUR)
    assert kind.text_of(begun) == "still wanted"


# -- a series that ends


def test_a_series_that_is_cancelled_keeps_the_runs_that_were_due(kind):
    made = kind.plan(hourly())
    do(kind, series.cancel, made.series_id, now_ms=NINE + 90 * MINUTE)
    assert missed(kind) == [(NINE, NINE + 2 * HOUR, "ended", NINE + 90 * MINUTE)]
    (said,) = told(kind, "series_missed")
    assert said == {"series_id": made.series_id, "reason": "ended", "due": NINE}
    assert column(kind.conn, f"SELECT last_error FROM {kind.table}") == [CALLED_OFF]


def test_a_series_that_is_cancelled_while_it_runs_keeps_what_came_due_meanwhile(kind):
    made = kind.plan(hourly())
    kind.begin(NINE)
    do(kind, series.cancel, made.series_id, now_ms=NINE + 90 * MINUTE)
    assert missed(kind) == [(NINE + HOUR, NINE + 2 * HOUR, "ended", NINE + 90 * MINUTE)]


@pytest.mark.parametrize("state", ["in time", "paused", "running"])
def test_a_series_that_missed_nothing_ends_without_a_row(kind, state):
    made = kind.plan(hourly())
    now = NINE - 1 if state == "in time" else NINE + MINUTE
    if state == "paused":
        do(kind, series.pause, made.series_id)
    if state == "running":
        kind.begin(NINE)
    do(kind, series.cancel, made.series_id, now_ms=now)
    assert missed(kind) == []


# -- settings


def test_the_settings_go_from_each_occurrence_to_the_next_and_can_change(kind):
    chosen = ScheduleSettings("catch_up", 5 * MINUTE)
    made = kind.plan(When(recurrence="0 9 * * *", settings=chosen))
    assert made.settings == chosen
    kind.finish(kind.begin(NINE), NINE)
    assert series.get(kind.conn, made.series_id).settings == chosen
    after = do(kind, series.update, made.series_id, Change(settings={"grace_ms": None, "misfire": "skip"}), now_ms=NINE)
    assert after.settings == SKIP
    assert json.loads(column(kind.conn, "SELECT data FROM events WHERE type = 'series_updated'")[0])["changed"] == [
        *("misfire", "grace_ms")
    ]


def test_a_text_without_an_agent_takes_no_setting_of_an_agent(conn):
    text = Responses(conn)
    made = text.plan(daily())
    for change in ({"script": "ls"}, {"wake": "news"}):
        with pytest.raises(ConfigInvalid, match="no agent is asked for a response"):
            do(text, series.update, made.series_id, Change(settings=change))
    do(text, series.update, made.series_id, Change(settings=made.settings._asdict()))


def test_old_rows_are_pruned_and_the_newest_stays(conn):
    with transaction(conn):
        for number in range(3):
            missed_runs.note(conn, missed_runs.MissedRuns("s", "m", NOW, None, None, None, "ended", NOW + number))
        assert missed_runs.prune(conn, older_than_ms=NOW + 9, limit=9) == 2
    assert column(conn, "SELECT noted_at FROM missed_runs") == [NOW + 2]
