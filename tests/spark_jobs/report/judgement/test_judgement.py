"""What all concerns amount to."""

import pytest

from spark_jobs.report.judgement import judge, verdict
from spark_jobs.report.judgement.concern import Concern, Level
from tests.spark_jobs.report.samples import DAY_MS, NOON, bad_month, facts, month, volume

WRONG, WATCH = Concern(Level.NEEDS_YOU, "a", "b"), Concern(Level.WATCH, "c", "d")


def test_a_good_month_has_no_concerns():
    at = facts(**month())
    assert judge(at) == ()
    assert verdict(at, ()) == ("well", "No problems.")


def test_a_bad_month_is_told_with_the_worst_first():
    found = judge(facts(**bad_month()))
    assert [concern.level for concern in found] == [Level.NEEDS_YOU] * 4 + [Level.WATCH] * 4
    assert [concern.section for concern in found] == [
        "failures", "backlog", "deliveries", "volume", "deliveries", "deliveries", "schedules", "costs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((WRONG,), ("wrong", "One thing needs you.")),
        ((WRONG, WRONG, WATCH), ("wrong", "2 things need you, and one thing to look at.")),
        ((WATCH, WATCH), ("watch", "Nothing needs you. 2 things to look at.")),
        ((), ("well", "No problems.")),
    ],
)
def test_the_verdict_counts(found, expected):
    assert verdict(facts(message_volume=[volume(0, "telegram", 1)]), found) == expected


def test_without_a_message_there_is_nothing_to_judge():
    assert verdict(facts(), ()) == ("empty", "There is nothing to judge: no message has come for two months.")


@pytest.mark.parametrize(("age", "is_told"), [(DAY_MS, False), (DAY_MS + 1, True)])
def test_a_page_says_that_it_shows_the_past(age, is_told):
    expected = ["This page was made 24\u00a0h after the state that it shows, which is of 9 Oct 2025, 12:00 UTC."]
    assert [concern.what for concern in judge(facts(now_ms=NOON + age))] == (expected if is_told else [])


@pytest.mark.parametrize(("days", "is_told"), [(6, True), (7, False)])
def test_a_new_history_of_this_week_is_told(days, is_told):
    expected = ["The replica has begun a new history, and rows from 3 Oct 2025, 12:00 UTC on were read again."]
    found = judge(facts(restored_ms=(NOON - days * DAY_MS,)))
    assert [concern.what for concern in found] == (expected if is_told else [])


def test_what_a_mart_lacks_is_told():
    assert [concern.what for concern in judge(facts(absent={"costs": "table usage"}))] == [
        "This mart has not all that the page needs. It lacks: costs (no table usage)."
    ]
