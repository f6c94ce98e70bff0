"""One answer for all who ask at about the same time."""

import asyncio

from shared.rest.live.shared_read import SharedRead
from tests.serving import leap


def read_at(*instants, cost_s, waits_s=0):
    """The numbers of the readings whose answers callers get at these instants."""
    made = iter(range(10))

    async def read():
        leap(waits_s)
        return next(made), cost_s

    async def go():
        shared = SharedRead(2000)
        return [await shared.get(read, now_ms=at) for at in instants]

    return asyncio.run(go())


def test_an_answer_is_read_again_when_it_is_old_and_when_the_clock_was_set_back():
    assert read_at(5000, 6999, 7000, 7001, 6999, cost_s=0.0) == [0, 0, 1, 1, 2]


def test_an_answer_that_cost_much_is_kept_for_longer():
    assert read_at(5000, 14_999, 16_000, cost_s=0.5) == [0, 0, 1]


def test_an_answer_that_waited_is_kept_no_longer_for_that():
    assert read_at(5000, 6999, 7000, cost_s=0.01, waits_s=10) == [0, 0, 1]


def test_callers_that_come_together_cause_one_reading():
    reads = []

    async def read():
        reads.append(1)
        await asyncio.sleep(0)
        return len(reads), 0.0

    async def go():
        shared = SharedRead(2000)
        return await asyncio.gather(*(shared.get(read, now_ms=5000) for _ in range(50)))

    assert asyncio.run(go()) == [1] * 50


def test_a_reading_that_fails_is_tried_by_the_next_caller():
    async def fail():
        raise OSError

    async def read():
        return "read", 0.0

    async def go():
        shared = SharedRead(2000)
        first = await asyncio.gather(shared.get(fail, now_ms=5000), return_exceptions=True)
        return type(first[0]), await shared.get(read, now_ms=5000)

    assert asyncio.run(go()) == (OSError, "read")


def test_after_a_change_the_next_answer_is_a_new_one_also_where_one_was_being_read():
    made = iter(range(10))
    shared = SharedRead(2000)

    async def read():
        return next(made), 0.5

    async def read_while_something_changes():
        shared.expire()
        return next(made), 0.5

    async def go():
        found = [await shared.get(read, now_ms=5000)]
        shared.expire()
        found += [await shared.get(read_while_something_changes, now_ms=5000), await shared.get(read, now_ms=5000)]
        return [*found, await shared.get(read, now_ms=5001)]

    assert asyncio.run(go()) == [0, 1, 2, 2]
