import pytest

from spark_jobs.mart.manifest import DayFiles, MartManifest, TableFiles
from spark_jobs.report.facts import Facts
from spark_jobs.report.judgement import coverage
from spark_jobs.report.outputs import complete_from
from spark_jobs.report.tiles import tiles
from tests.spark_jobs.report.samples import NOON, back, volume


def messages_before(facts):
    return next(tile.before for tile in tiles(facts) if tile.label == "Messages")


def facts(first, whole=None):
    rows = [volume(days, "telegram", 10) for days in range(first + 1)]
    return Facts(NOON, NOON, {"message_volume": rows}, complete_from=whole)


@pytest.mark.parametrize(
    ("first", "whole", "before"),
    [
        (13, None, "70 the week before"),
        (20, back(13), "70 the week before"),
        (20, back(12), ""),
        (7, None, ""),  # one day of that week: growth of seven times
    ],
)
def test_no_thin_week_is_compared(first, whole, before):
    assert messages_before(facts(first, whole)) == before


@pytest.mark.parametrize(("days", "is_told"), [(3, True), (29, True), (30, False)])
def test_the_page_says_before_which_day_the_mart_is_incomplete(days, is_told):
    told = list(coverage.incomplete(facts(20, back(days))))
    assert bool(told) is is_told
    assert all(f"incomplete before {back(days).day} " in each.what for each in told)


def test_a_whole_mart_is_not_called_incomplete():
    assert not list(coverage.incomplete(facts(20)))


@pytest.mark.parametrize(("missing", "day"), [(10, "2025-10-08"), (9, None)])
def test_a_hole_counts_from_a_tenth_of_the_rows_of_its_day(missing, day):
    days = {"2025-10-08": DayFiles(100, 1, ("f",))}
    tables = {"messages": TableFiles({}, 1, days, {"2025-10-08": missing})}
    found = complete_from(MartManifest("r", "1", "2025-10-09T12:00:00Z", "", "h", 1, 0, "now", tables=tables))
    assert (found and found.isoformat()) == day
