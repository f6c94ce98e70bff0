"""One answer for all who ask at about the same time."""

import asyncio

from shared.rest.live.shared_read import SharedRead
from tests.serving import leap


def test_an_answer_is_read_again_when_it_is_old_and_when_the_clock_was_set_back():
    made = iter(range(10))

    async def read():
        return next(made)

    async def go():
        shared = SharedRead(2000)
        return [await shared.get(read, now_ms=at) for at in (5000, 6999, 7000, 7001, 6999)]

    assert asyncio.run(go()) == [0, 0, 1, 1, 2]


def test_callers_that_come_together_cause_one_reading():
    reads = []

    async def read():
        reads.append(1)
        await asyncio.sleep(0)
        return len(reads)

    async def go():
        shared = SharedRead(2000)
        return await asyncio.gather(*(shared.get(read, now_ms=5000) for _ in range(50)))

    assert asyncio.run(go()) == [1] * 50


def test_a_reading_that_fails_is_tried_by_the_next_caller():
    async def fail():
        raise OSError

    async def read():
        return "read"

    async def go():
        shared = SharedRead(2000)
        first = await asyncio.gather(shared.get(fail, now_ms=5000), return_exceptions=True)
        return type(first[0]), await shared.get(read, now_ms=5000)

    assert asyncio.run(go()) == (OSError, "read")


def test_an_answer_that_took_long_is_kept_for_longer():
    made = iter(range(10))

    async def read():
        leap(0.5)
        return next(made)

    async def go():
        shared = SharedRead(2000)
        return [await shared.get(read, now_ms=at) for at in (5000, 14_999, 16_000)]

    assert asyncio.run(go()) == [0, 0, 1]
