from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from shared.core.time import periods
from tests.support import NOW

HOUR_MS = 3_600_000


def at(zone, *when):
    return round(datetime(*when, tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "zone", "start", "end"),
    [
        ("day", "UTC", (2027, 1, 15), (2027, 1, 16)),
        ("month", "UTC", (2027, 1, 1), (2027, 2, 1)),
        ("day", "Pacific/Honolulu", (2027, 1, 14), (2027, 1, 15)),  # there it is still yesterday
    ],
)
def test_a_period_begins_at_midnight_of_the_time_zone(period, zone, start, end):
    assert periods.containing(period, NOW, zone) == (at(zone, *start), at(zone, *end))


@pytest.mark.parametrize(("day", "hours"), [((2027, 3, 28), 23), ((2027, 10, 31), 25), ((2027, 6, 1), 24)])
def test_a_day_with_a_clock_change_is_as_long_as_it_is(day, hours):
    start, end = periods.containing("day", at("Europe/Zurich", *day, 12), "Europe/Zurich")
    assert (end - start) / HOUR_MS == hours
    assert periods.containing("day", end - 1, "Europe/Zurich") == (start, end)
    assert periods.containing("day", end, "Europe/Zurich").start_ms == end


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Honolulu", "Pacific/Kiritimati"])
@pytest.mark.parametrize("month", [1, 2, 6, 12])
def test_a_month_is_as_long_as_it_is_whatever_the_zone_of_its_start(zone, month):
    found = periods.containing("month", at(zone, 2027, month, 1), zone)
    assert periods.length_ms("month", found.start_ms) == found.end_ms - found.start_ms
    assert periods.length_ms("day", found.start_ms) == 24 * HOUR_MS


def test_december_ends_with_the_year():
    assert periods.containing("month", at("UTC", 2027, 12, 31), "UTC") == (
        at("UTC", 2027, 12, 1),
        at("UTC", 2028, 1, 1),
    )
