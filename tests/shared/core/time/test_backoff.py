import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.time.backoff import LONGEST_SLEEP_MS, delay_ms, has_slept, outage_delay_ms
from tests.support import NOW


def test_waits_double_up_to_the_cap_and_jitter_only_shortens():
    def waits(jitter):
        return [delay_ms(attempt, base_ms=5000, cap_ms=60_000, jitter=jitter) for attempt in range(1, 7)]

    assert waits(0.0) == [2500, 5000, 10_000, 20_000, 30_000, 30_000]
    assert waits(0.999999) == [4999, 9999, 19_999, 39_999, 59_999, 59_999]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_longer_than_the_cap(attempt, base, cap, jitter):
    assert 0 <= delay_ms(attempt, base_ms=base, cap_ms=cap, jitter=jitter) <= cap


def test_waits_can_grow_faster():
    waits = [delay_ms(attempt, base_ms=5000, cap_ms=300_000, jitter=0.0, growth=4) for attempt in range(1, 6)]
    assert waits == [2500, 10_000, 40_000, 150_000, 150_000]


def test_a_wait_in_an_outage_is_as_long_as_the_outage_so_far():
    waits = [outage_delay_ms(elapsed, shortest_ms=10, longest_ms=60) for elapsed in (-5, 0, 30, 100)]
    assert waits == [10, 10, 30, 60]


@pytest.mark.parametrize(
    ("due_ms", "is_anew"),
    [(None, False), (NOW, False), (NOW - LONGEST_SLEEP_MS, False), (NOW - LONGEST_SLEEP_MS - 1, True)],
)
def test_waits_begin_anew_after_hours_in_which_nothing_was_tried(due_ms, is_anew):
    assert has_slept(due_ms, now_ms=NOW) is is_anew
