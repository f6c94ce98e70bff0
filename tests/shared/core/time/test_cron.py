from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.errors import ConfigInvalid
from shared.core.time.cron import next_occurrence, successor, validate

ZURICH, NEW_YORK, LORD_HOWE, SAO_PAULO = "Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"
TROLL = "Antarctica/Troll"


def ms(text, zone="UTC"):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def following(expression, zone, after, count):
    """The next *count* instants, on the wall clock of *zone*, with the offset."""
    instants, at = [], ms(after, zone)
    for _ in range(count):
        at = next_occurrence(expression, zone, after_ms=at)
        instants.append(datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return instants


CASES = {
    "daily, on the day 2:30 is missing: an hour later, once": (
        *("30 2 * * *", ZURICH, "2026-03-28T12:00"),
        ["2026-03-29T03:30+02:00", "2026-03-30T02:30+02:00"],
    ),
    "daily, on the day 2:30 comes twice: the first time": (
        *("30 2 * * *", ZURICH, "2026-10-24T12:00"),
        ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
    ),
    "daily, after a start between the two 2:30": (
        *("45 2 * * *", ZURICH, "2026-10-25T02:30"),
        ["2026-10-25T02:45+02:00", "2026-10-26T02:45+01:00"],
    ),
    "daily at nine keeps the wall clock": (
        *("0 9 * * *", ZURICH, "2026-03-27T12:00"),
        ["2026-03-28T09:00+01:00", "2026-03-29T09:00+02:00"],
    ),
    "New York, forward": (
        *("30 2 * * *", NEW_YORK, "2026-03-07T12:00"),
        ["2026-03-08T03:30-04:00", "2026-03-09T02:30-04:00"],
    ),
    "New York, back": (
        *("30 1 * * *", NEW_YORK, "2026-10-31T12:00"),
        ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
    ),
    "hourly runs in both of the doubled hours": (
        *("30 * * * *", ZURICH, "2026-10-25T01:00"),
        ["2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00", "2026-10-25T03:30+01:00"],
    ),
    "@hourly too": (
        *("@hourly", ZURICH, "2026-10-25T01:30"),
        ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"],
    ),
    "hourly does not run in the missing hour": (
        *("30 * * * *", ZURICH, "2026-03-29T00:00"),
        ["2026-03-29T00:30+01:00", "2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"],
    ),
    "a half-hour gap: the missing time moves by half an hour, and overtakes nothing": (
        *("20,35 2 * * *", LORD_HOWE, "2026-10-03T12:00"),
        ["2026-10-04T02:35+11:00", "2026-10-04T02:50+11:00", "2026-10-05T02:20+11:00", "2026-10-05T02:35+11:00"],
    ),
    "a half-hour that comes twice: the first time": (
        *("45 1 * * *", LORD_HOWE, "2026-04-04T12:00"),
        ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"],
    ),
    "a midnight that does not exist": (
        *("0 0 * * *", SAO_PAULO, "2018-11-03T12:00"),
        ["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"],
    ),
    "two hours that do not exist: two hours later": (
        *("30 1 * * *", TROLL, "2026-03-28T12:00"),
        ["2026-03-29T03:30+02:00", "2026-03-30T01:30+02:00"],
    ),
    "after a start within what those two hours have moved to": (
        *("30 1 * * *", TROLL, "2026-03-29T03:05"),
        ["2026-03-29T03:30+02:00", "2026-03-30T01:30+02:00"],
    ),
    "two hours that come twice: the first time": (
        *("30 1 * * *", TROLL, "2026-10-24T12:00"),
        ["2026-10-25T01:30+02:00", "2026-10-26T01:30+00:00"],
    ),
    "the months and days whose names have an r": ("0 9 * mar,apr fri", "UTC", "2027-03-01", ["2027-03-05T09:00+00:00"]),
    "leap days": ("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
    "weekdays by name": ("0 8 * * mon-fri", "UTC", "2026-11-20T09:00", ["2026-11-23T08:00+00:00"]),
    "strictly after": ("0 9 * * *", "UTC", "2026-11-20T09:00", ["2026-11-21T09:00+00:00"]),
}


@pytest.mark.parametrize(("expression", "zone", "after", "expected"), CASES.values(), ids=CASES)
def test_next_occurrence(expression, zone, after, expected):
    assert following(expression, zone, after, len(expected)) == expected


REFUSED = {
    "no field": ("", "UTC", "needs five fields"),
    "four fields": ("* * * *", "UTC", "needs five fields"),
    "seconds": ("* * * * * *", "UTC", "needs five fields"),
    "a year, which ends": ("0 0 1 1 * 0 2027", "UTC", "needs five fields"),
    "the sixtieth minute": ("60 * * * *", "UTC", "can't be used"),
    "a word": ("every day at nine oclock", "UTC", "can't be used"),
    "a date that never comes": ("0 0 30 2 *", "UTC", "can't be used"),
    "an unknown alias": ("@reboot", "UTC", "can't be used"),
    "a random minute": ("R 9 * * *", "UTC", "R stands for a random instant"),
    "a random hour of some": ("0 r(1-3) * * *", "UTC", "R stands for a random instant"),
    "a step of nothing": ("*/0 * * * *", "UTC", "can't be used"),
    "an unknown zone": ("* * * * *", "Mars/Olympus", "time zone 'Mars/Olympus' is not known"),
    "a path for a zone": ("* * * * *", "../../etc/passwd", "is not known"),
    "a folder for a zone": ("* * * * *", "Europe", "is not known"),
    "an empty zone": ("* * * * *", "", "is not known"),
}


@pytest.mark.parametrize(("expression", "zone", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_schedule_that_can_never_run_is_refused_with_a_sentence(expression, zone, sentence):
    with pytest.raises(ConfigInvalid, match=sentence):
        validate(expression, zone)


DUE = ms("2026-11-20T09:00")
MISFIRES = {
    "on time, coalesce": ("coalesce", DUE + 5, "2026-11-21T09:00"),
    "on time, catch up": ("catch_up", DUE + 5, "2026-11-21T09:00"),
    "three days late, coalesce: the next on the grid": ("coalesce", DUE + 3 * 86_400_000 + 5, "2026-11-24T09:00"),
    "three days late, catch up: the next that was missed": ("catch_up", DUE + 3 * 86_400_000, "2026-11-21T09:00"),
    "late to the millisecond: the next is not now again": ("coalesce", DUE + 86_400_000, "2026-11-22T09:00"),
    "ended before it was due": ("coalesce", DUE - 60_000, "2026-11-21T09:00"),
}


@pytest.mark.parametrize(("misfire", "now", "expected"), MISFIRES.values(), ids=MISFIRES)
def test_a_successor_is_computed_from_the_scheduled_instant(misfire, now, expected):
    assert successor("0 9 * * *", "UTC", misfire, scheduled_ms=DUE, now_ms=now).due_ms == ms(expected)


minutes = st.sampled_from(["0", "15", "*/20", "*", "7,52", "30-40"])
hours = st.sampled_from(["*", "*/2", "2", "1,2,3", "0", "23", "0-23", "1-3"])
days = st.sampled_from(["*", "29", "1,15", "31"])
weekdays = st.sampled_from(["*", "sun", "1-5"])
zones = st.sampled_from([ZURICH, NEW_YORK, LORD_HOWE, SAO_PAULO, TROLL, "UTC", "Asia/Kathmandu", "Africa/Casablanca"])
instants = st.integers(ms("2015-01-01"), ms("2030-01-01"))


@given(minutes, hours, days, weekdays, zones, instants)
def test_each_occurrence_is_later_than_the_one_before(minute, hour, day, weekday, zone, at):
    expression = f"{minute} {hour} {day} * {weekday}"
    for _ in range(5):
        following_ms = next_occurrence(expression, zone, after_ms=at)
        assert following_ms > at
        at = following_ms


@given(zones, instants)
def test_a_daily_task_runs_once_on_every_day(zone, at):
    day = None
    for _ in range(4):
        at = next_occurrence("30 2 * * *", zone, after_ms=at)
        local = datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).date()
        assert day is None or local == day + timedelta(days=1)
        day = local


@given(minutes, hours, days, weekdays, zones, instants, st.floats(0, 1, exclude_max=True))
def test_the_grid_does_not_depend_on_the_starting_instant(minute, hour, day, weekday, zone, at, share):
    """No drift: a late run or a downtime does not change the following instants."""
    expression = f"{minute} {hour} {day} * {weekday}"
    following_ms = next_occurrence(expression, zone, after_ms=at)
    between = at + int((following_ms - at) * share)
    assert next_occurrence(expression, zone, after_ms=between) == following_ms


@given(minutes, hours, zones, instants, st.integers(0, 5 * 86_400_000), st.sampled_from(["coalesce", "catch_up"]))
def test_a_successor_is_on_the_grid_and_skips_only_what_misfire_allows(minute, hour, zone, at, late, misfire):
    expression = f"{minute} {hour} * * *"
    due = next_occurrence(expression, zone, after_ms=at)
    found = successor(expression, zone, misfire, scheduled_ms=due, now_ms=due + late).due_ms
    following_ms = next_occurrence(expression, zone, after_ms=due)
    if misfire == "catch_up" or following_ms > due + late:
        assert found == following_ms
    else:
        assert found == next_occurrence(expression, zone, after_ms=due + late)
