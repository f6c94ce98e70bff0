"""A batch has as many rows as take a few milliseconds here and now."""

import asyncio

import pytest

from shared.db.engine.group_commit import Writer
from shared.runtime.batch_size import BatchSize, Timed


def sizes(size, *batches):
    """The size after each batch, of which the seconds for each row are given."""
    found = []
    for seconds in batches:
        size.learn(size.rows * seconds, is_full=True)
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
    size.learn(took_s, is_full=False)
    assert size.rows == rows


def test_work_is_timed_from_the_moment_at_which_it_has_the_lock(db):
    writer = Writer(db)
    timed = Timed(lambda conn: conn.in_transaction)
    assert timed.took_s() == 0.0
    assert asyncio.run(writer.run(timed))
    assert 0.0 < timed.took_s() < 60.0
    writer.close()


def test_after_a_while_it_begins_small_again():
    size = BatchSize(250)
    assert sizes(size, *[1e-6] * 4)[-1] == 250
    size.begin_again()
    assert size.rows == 25
    assert sizes(size, 1e-3) == [2]
    size.begin_again()
    assert size.rows == 2
