import pytest

from spark_jobs.mart.manifest import DayFiles, MartManifest, TableFiles
from spark_jobs.report.facts import Facts
from spark_jobs.report.judgement import coverage, delivery, spending, turns
from spark_jobs.report.outputs import complete_from
from spark_jobs.report.tiles import tiles
from tests.spark_jobs.report import samples
from tests.spark_jobs.report.samples import NOON, back, cost, delivered, ms, times, volume, waiting


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


def manifest(rows, **counts):
    days = {"2025-10-08": DayFiles(rows, 1, ("f",))}
    tables = {"messages": TableFiles({}, 1, days, **counts)}
    return MartManifest("r", "1", "2025-10-09T12:00:00Z", "", "h", 1, 0, "now", tables=tables)


def written(day):
    return day and day.isoformat()


@pytest.mark.parametrize(("missing", "day"), [(10, "2025-10-08"), (9, None)])
def test_a_hole_counts_from_a_tenth_of_the_rows_of_its_day(missing, day):
    assert written(complete_from(manifest(100, holes={"2025-10-08": missing}))) == day


@pytest.mark.parametrize(("missing", "day"), [(10, "2025-10-09"), (9, None)])
def test_a_day_whose_events_tell_of_a_tenth_more_rows_is_not_complete_itself(missing, day):
    assert written(complete_from(manifest(100, unseen={"2025-10-08": missing}))) == day
    assert written(complete_from(manifest(100, holes={"2025-10-08": 50}, unseen={"2025-10-08": missing}))) == (
        day or "2025-10-08"
    )


SLOW = (1, 90_000, 9)
COMPARISONS = [
    (turns.slow_agents, {"turn_times_of_days": [times(each, "a") for each in (2, 3, 4)] + [times(0, "a", wait=SLOW)]}),
    (delivery.slow_channels, {"deliveries": [delivered(each, "x", 9) for each in (2, 3, 4)]
                              + [delivered(0, "x", 9, took=SLOW)]}),
    (spending.cost_jumps, {"costs": [cost(each, "a", 1) for each in (2, 3, 4)] + [cost(0, "a", 9_000_000)]}),
    (turns.growing_backlog, {"backlog": [waiting(each, "a", ms(back(each)), 10) for each in range(4)]}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "rows"), COMPARISONS, ids=lambda each: getattr(each, "__name__", ""))
def test_days_of_which_the_mart_lacks_rows_are_compared_with_none(rule, rows):
    assert list(rule(samples.facts(**rows)))
    assert list(rule(samples.facts(complete_from=back(4), **rows)))
    assert not list(rule(samples.facts(complete_from=back(2), **rows)))


@pytest.mark.parametrize(
    ("whole", "usual"),
    [(8, "; before, 10 messages a day were usual."), (4, "; before, 30 messages a day were usual."), (0, ".")],
)
def test_a_silent_channel_is_told_with_what_is_usual_on_complete_days(whole, usual):
    rows = [volume(each, "telegram", 30 if each < 5 else 10) for each in range(2, 9)]
    (concern,) = delivery.silent_channels(samples.facts(complete_from=back(whole), message_volume=rows))
    assert concern.what == f"Channel telegram is silent: nothing has come since 7 Oct{usual}"
