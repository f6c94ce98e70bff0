"""The calendar of the year, and what is said of runs that are not as it says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.core.time import cron
from tests.simulation.long_runs.schedules import PLANNED, Schedules

BY_LABEL = {each.label: each for each in PLANNED}


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def instants(label: str, from_: str, until: str) -> list[str]:
    found = BY_LABEL[label].instants(ms(from_), ms(until))
    return [datetime.fromtimestamp(each / 1000, UTC).strftime("%m-%d %H:%M") for each in found]


def test_a_time_that_the_clock_skips_comes_later_and_one_that_comes_twice_counts_once() -> None:
    assert instants("skippedhour", "2027-03-27", "2027-03-30") == ["03-27 01:30", "03-28 01:30", "03-29 00:30"]
    assert instants("doubledhour", "2027-11-06", "2027-11-09") == ["11-06 05:30", "11-07 05:30", "11-08 06:30"]


def test_months_have_their_own_ends() -> None:
    assert instants("last", "2027-02-02", "2027-05-02") == ["03-01 02:00", "04-01 01:00", "05-01 01:00"]
    assert instants("thirtyfirst", "2027-01-20", "2027-06-01") == ["01-31 01:00", "03-31 01:00", "05-31 02:00"]
    assert instants("first", "2027-01-20", "2027-03-02") == ["02-01 06:00", "03-01 06:00"]


FROM, UNTIL = "2027-02-05T08:00", "2027-02-12T08:00"


def problems(*, without: str = "", twice: str = "", unanswered: str = "") -> list[str]:
    """Of a week in which all schedules ran, but for what is given: instants of ``morning``."""
    runs = [(each.label, at, f"{each.label} {at}") for each in PLANNED for at in each.instants(ms(FROM), ms(UNTIL))]
    runs = [run for run in runs if not without or run[:2] != ("morning", ms(without))]
    answers = [(message,) for *_, message in runs if not unanswered or message != f"morning {ms(unanswered)}"]
    if twice:
        runs.append(("morning", ms(twice), f"morning {ms(twice)}"))

    def query(sql: str) -> list[tuple[Any, ...]]:
        if "recurrence" in sql:
            return [(each.prompt, each.label) for each in PLANNED]
        if "schedule_runs" in sql:
            return runs
        return answers if "responses" in sql else []

    week = Schedules(None, None, query, from_ms=ms(FROM), until_ms=ms(UNTIL), makes=False)  # type: ignore[arg-type]
    return week.problems(query, is_history_whole=True)


def test_a_run_that_is_missing_doubled_or_unanswered_is_told() -> None:
    assert problems() == []
    assert problems(without="2027-02-06T09:15") == ["morning has no run for 2027-02-06T09:15:00+00:00"]
    assert problems(twice="2027-02-06T09:15") == ["morning ran 2 times for 2027-02-06T09:15:00+00:00"]
    assert problems(unanswered="2027-02-06T09:15") == ["the run of morning for 2027-02-06T09:15:00+00:00 has 0 answers"]
    assert "is none of its instants" in "".join(problems(twice="2027-02-06T09:16"))


@pytest.mark.long
@pytest.mark.any_python
def test_the_products_cron_names_the_same_instants_for_the_whole_year() -> None:
    from_ms, until_ms = ms("2027-01-15T08:00"), ms("2028-01-15T08:00")
    for each in PLANNED:
        found = cron.between(each.cron, each.zone, due_ms=from_ms - 1, until_ms=until_ms, most=2000)[1:]
        assert found == list(each.instants(from_ms, until_ms)), each.label
