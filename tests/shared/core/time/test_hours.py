"""Hours of a day in a time zone."""

import pytest

from shared.core.time import hours
from tests.support import NOW  # 08:00 in UTC

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "now", "start", "end"),
    [
        ("22:00-07:00", NOW, NOW - 10 * HOUR, NOW - HOUR),
        ("22:00-07:00", NOW - 2 * HOUR, NOW - 10 * HOUR, NOW - HOUR),
        ("22:00-07:00", NOW - 10 * HOUR, NOW - 10 * HOUR, NOW - HOUR),
        ("08:00-09:30", NOW, NOW, NOW + HOUR * 3 // 2),
        ("08:01-09:30", NOW, NOW + 60_000 - 24 * HOUR, NOW + HOUR * 3 // 2 - 24 * HOUR),
    ],
)
def test_the_latest_hours_have_begun(text, now, start, end):
    assert hours.latest(text, now, "UTC") == (start, end)


def test_hours_are_those_of_the_time_zone():
    assert hours.latest("08:00-10:00", NOW, "Europe/Zurich") == (NOW - HOUR, NOW + HOUR)


def test_a_night_with_a_clock_change_is_longer():
    october = 1_792_911_600_000  # 2026-10-25T05:00:00Z, after the change of 01:00
    start, end = hours.latest("22:00-07:00", october, "Europe/Zurich")
    assert end - start == 10 * HOUR


@pytest.mark.parametrize("wrong", ["", "22-7", "22:00-22:00", "24:00-07:00", "22:60-07:00", " 22:00-07:00"])
def test_other_texts_are_refused(wrong):
    with pytest.raises(ValueError, match="no hours of a day"):
        hours.checked(wrong)


def test_none_stays_none():
    assert hours.checked(None) is None
