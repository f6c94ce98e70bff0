"""A daily series over days of trouble: late runs, retries, deaths, downtimes, changes and pruning shift nothing."""

import shutil
import tempfile
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import messages, responses
from shared.db.queue.schedules.settings import ScheduleSettings
from shared.queue import series
from shared.queue.series import Change, When
from tests.examples import examples
from tests.shared.queue.series.kinds import DAY, Messages, Responses, do, live
from tests.support import column

ZONES = [
    "Europe/Zurich",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Africa/Cairo",
    "Asia/Kathmandu",
]
EDGES = [
    date(2027, 3, 13),
    date(2027, 3, 27),
    date(2027, 4, 3),
    date(2027, 10, 2),
    date(2027, 10, 30),
    date(2027, 11, 6),
]
CLOCKS = [(0, 0), (1, 30), (2, 30), (3, 0), (9, 0), (23, 59)]


def grid(zone, hour, minute, first, days):
    """The instants of the daily task, without any cron: a missing one moves on, of a double one the first counts."""
    dates = (first + timedelta(days=number) for number in range(days))
    wall = (datetime(each.year, each.month, each.day, hour, minute, tzinfo=ZoneInfo(zone)) for each in dates)
    return [int(each.timestamp() * 1000) for each in wall]


steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 59_000, 20 * 3_600_000, DAY, 3 * DAY + 7]),  # how late it is begun
        st.sampled_from(["done", "done", "retried", "dead"]),
        st.sampled_from([None, None, "text", "paused", "paused while it runs", "text while it runs"]),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("make", [Messages, Responses], ids=["messages", "responses"])
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(ZONES),
    st.sampled_from(EDGES),
    st.sampled_from(CLOCKS),
    st.sampled_from(["coalesce", "catch_up"]),
    steps,
)
def test_every_run_is_on_the_grid_in_order_and_none_is_missed_but_by_rule(
    fresh_database, make, zone, first, clock, misfire, steps
):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.db"
        shutil.copy(fresh_database, path)
        conn = open_connection(path)
        try:
            run(make(conn), zone, first, clock, misfire, steps)
        finally:
            conn.close()


def run(kind, zone, first, clock, misfire, steps):
    hour, minute = clock
    expected = grid(zone, hour, minute, first, 60)
    now = expected[0] - 1
    when = When(recurrence=f"{minute} {hour} * * *", timezone=zone, settings=ScheduleSettings(misfire))
    name = kind.plan(when, now_ms=now).series_id
    allowed = [expected[0]]  # the instants that may be due now
    for late, outcome, change in steps:
        (due,) = [due for _, due in live(kind)]
        assert due in allowed
        now = max(now, due) + late
        if change == "text":
            do(kind, series.update, name, Change(message=f"text {now}"), now_ms=now)
        elif change == "paused":
            do(kind, series.pause, name, now_ms=now)
            do(kind, series.resume, name, now_ms=now)
            now = following(expected, now)
        begun = kind.begin(now)
        due = column(kind.conn, f"SELECT scheduled_at FROM {kind.table} WHERE recurrence IS NOT NULL")[0]
        if change == "text while it runs":
            do(kind, series.update, name, Change(message=f"text {now}"), now_ms=now)
        elif change == "paused while it runs":
            do(kind, series.pause, name, now_ms=now)
            do(kind, series.resume, name, now_ms=now)
        if outcome == "retried":
            kind.fail(begun, now)
            now += 60_000
            begun = kind.begin(now)
        handed_on = now
        if outcome == "dead":
            kind.fail(begun, now, for_good=True)
        else:
            kind.finish(begun, now)
        prune(kind, now + 2 * DAY)
        allowed = [following(expected, due)]
        if misfire == "coalesce" or change == "paused while it runs":
            allowed += [following(expected, handed_on), following(expected, handed_on - 60_000)]
        assert len(live(kind)) == 1
    dues = column(kind.conn, "SELECT due_at FROM schedule_runs ORDER BY id")
    assert dues == sorted(set(dues))
    assert set(dues) <= set(expected)
    assert all(started >= due for due, started in rows(kind.conn, "SELECT due_at, started_at FROM schedule_runs"))


def following(expected, instant):
    return next(each for each in expected if each > instant)


def prune(kind, older_than_ms):
    with transaction(kind.conn):
        for table in (messages, responses):
            table.prune(kind.conn, after_id=0, older_than_ms=older_than_ms, limit=1000)
