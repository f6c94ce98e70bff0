"""What is held against a Litestream decides whether functions rely on it, how long the next one waits, and its log."""

import pytest

from infra.litestream.supervision.doubt import Backoff, Doubt, has_ended_well, is_complete, may_rely

NONE, SAID_TROUBLE, DISPROVEN, CANT_READ, STOOD_STILL, TORN_COMMIT = Doubt


@pytest.mark.parametrize(
    ("doubt", "is_relied_on", "waits", "is_mended"),
    [
        (NONE, True, True, False),
        (SAID_TROUBLE, False, True, False),
        (DISPROVEN, False, True, False),
        (CANT_READ, False, True, True),
        (STOOD_STILL, False, False, False),
        (TORN_COMMIT, False, False, False),  # writers wait for the next Litestream
    ],
)
def test_each_doubt_decides_what_follows(doubt: Doubt, is_relied_on: bool, waits: bool, is_mended: bool) -> None:
    assert may_rely(doubt, has_full_copy=True, is_ending=False) == is_relied_on
    assert is_complete(doubt, has_full_copy=True, is_behind=False) == is_relied_on
    assert has_ended_well(doubt, 0) == is_relied_on
    assert (Backoff().after(doubt, 60.0)[0] > 0) == waits
    assert doubt.needs_mending == is_mended


@pytest.mark.parametrize(
    ("has_full_copy", "is_ending", "expected"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_functions_rely_on_a_whole_prefix_of_a_litestream_that_goes_on(
    has_full_copy: bool, is_ending: bool, expected: bool
) -> None:
    assert may_rely(NONE, has_full_copy=has_full_copy, is_ending=is_ending) == expected


@pytest.mark.parametrize(
    ("has_full_copy", "is_behind", "expected"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_comparison_needs_a_whole_prefix_that_is_not_behind(
    has_full_copy: bool, is_behind: bool, expected: bool
) -> None:
    assert is_complete(NONE, has_full_copy=has_full_copy, is_behind=is_behind) == expected


def test_an_end_with_an_error_is_no_good_end() -> None:
    assert not has_ended_well(NONE, 1)


def pauses(doubt: Doubt, ran_s: float, times: int) -> list[float]:
    found, backoff = [], Backoff()
    for _ in range(times):
        pause_s, backoff = backoff.after(doubt, ran_s)
        found.append(pause_s)
    return found


@pytest.mark.parametrize(
    ("doubt", "ran_s", "expected"),
    [
        (NONE, 1.0, [0.5, 1, 2, 4, 8, 16, 30, 30]),
        (CANT_READ, 1.0, [0.5, 1, 2, 4]),
        (NONE, 31.0, [0.5, 0.5, 0.5]),  # it had begun well
        (TORN_COMMIT, 1.0, [0, 0, 0]),
        (TORN_COMMIT, 0.1, [0.5, 0.5, 0.5]),  # else writers that die at once would make it start without a pause
    ],
)
def test_a_litestream_to_blame_for_its_end_makes_the_next_one_wait_longer_each_time(
    doubt: Doubt, ran_s: float, expected: list[float]
) -> None:
    assert pauses(doubt, ran_s, len(expected)) == expected


def test_after_an_end_without_blame_the_pauses_begin_again() -> None:
    _, backoff = Backoff(16.0).after(STOOD_STILL, 1.0)
    assert backoff.after(NONE, 1.0)[0] == 1.0
