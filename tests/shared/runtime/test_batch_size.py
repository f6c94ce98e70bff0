"""A batch has as many rows as take a few milliseconds here and now."""

import pytest

from shared.runtime.batch_size import BatchSize, Steps


def sizes(size, *batches):
    """The size after each batch, of which the seconds for each row are given."""
    found = []
    for seconds in batches:
        size.learn(size.rows * seconds, rows=size.rows, is_full=True)
        found.append(size.rows)
    return found


def test_the_first_batch_is_small_and_the_next_grow_up_to_the_most():
    size = BatchSize(250)
    assert size.rows == 25
    assert sizes(size, *[1e-6] * 5) == [50, 100, 200, 250, 250]
    assert BatchSize(10).rows == 10


def test_a_batch_that_took_too_long_is_followed_by_one_that_does_not():
    size = BatchSize(250)
    assert sizes(size, *[1e-6] * 4, 1e-4, 1e-4) == [50, 100, 200, 250, 25, 25]
    assert sizes(size, 1.0, 1.0) == [1, 1]


@pytest.mark.parametrize(("took_s", "rows"), [(0.001, 25), (0.005, 12)])
def test_a_batch_with_little_to_do_proves_no_larger_one(took_s, rows):
    size = BatchSize(250)
    size.learn(took_s, rows=25, is_full=False)
    assert size.rows == rows


@pytest.mark.parametrize(("took_s", "rows"), [(0.001, 80), (0.002, 40), (0.005, 20)])
def test_the_next_batch_follows_from_the_rows_that_this_one_took(took_s, rows):
    """It stopped after 40 of 200 rows, for lack of time."""
    size = BatchSize(250)
    size.rows = 200
    size.learn(took_s, rows=40, is_full=True)
    assert size.rows == rows


class Rows:
    """A batch over *count* rows, each of which takes so many seconds by a clock of its own."""

    def __init__(self, count, seconds):
        self.count, self.seconds = count, seconds
        self.now_s = 100.0
        self.limits = []

    def __call__(self, _, place, limit):
        self.limits.append(limit)
        first = place or 0
        done = min(limit, self.count - first)
        self.now_s += done * self.seconds
        return done, first + done if done == limit else None

    def clock_s(self):
        return self.now_s


@pytest.mark.parametrize(
    ("seconds", "limits"),
    [(0.00001, [20] * 5), (0.00002, [20, 20, 20, 20]), (0.0001, [20]), (0.01, [20])],
)
def test_a_batch_stops_between_two_steps_when_its_time_is_up(seconds, limits):
    """The rows before took less, so the batch is too large for these."""
    rows = Rows(1000, seconds)
    steps = Steps(rows, 300, 100, clock_s=rows.clock_s)
    assert steps(None) == (sum(limits), 300 + sum(limits))
    assert rows.limits == limits
    assert steps.rows == sum(limits)


def test_a_batch_ends_with_the_rows():
    rows = Rows(330, 0.0)
    steps = Steps(rows, 300, 100, clock_s=rows.clock_s)
    assert steps(None) == (30, None)
    assert rows.limits == [20, 20]


def test_a_small_batch_takes_one_row_in_a_step_and_no_more_than_it_may():
    for most, limits in ((1, [1]), (3, [1, 1, 1]), (12, [2] * 6), (13, [2] * 6 + [1])):
        rows = Rows(1000, 0.0)
        assert Steps(rows, None, most, clock_s=rows.clock_s)(None) == (most, most)
        assert rows.limits == limits


def test_after_a_while_it_begins_small_again():
    size = BatchSize(250)
    assert sizes(size, *[1e-6] * 4)[-1] == 250
    size.begin_again()
    assert size.rows == 25
    assert sizes(size, 1e-3) == [2]
    size.begin_again()
    assert size.rows == 2
