"""The share of the event loop that the lines of programs get."""

import asyncio
import heapq
from itertools import pairwise

from shared.agents.programs.pace import REST_S, SLICE_S, Floods, Pace


class Loop:
    """A clock that work moves, and the rests of what floods."""

    def __init__(self):
        self.now_s = 100.0
        self.rests = []
        self._sleeping = []

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self.rests.append((self.now_s, seconds))
        heapq.heappush(self._sleeping, (self.now_s + seconds, len(self.rests), woken))
        await woken

    def handle(self, lines, *, takes_s, comes_after_s=0.0, programs=1):
        """Handle so many lines of each program; one at a time, as an event loop does."""
        floods = Floods()

        async def program():
            pace = Pace(floods, lambda: self.now_s, self.sleep)
            for _ in range(lines):
                self.now_s += comes_after_s
                pace.begin()
                self.now_s += takes_s
                await pace.rest()

        async def go():
            running = [asyncio.create_task(program()) for _ in range(programs)]
            while not all(each.done() for each in running):
                await asyncio.sleep(0)
                while self._sleeping:
                    at_s, _, woken = heapq.heappop(self._sleeping)
                    self.now_s = max(self.now_s, at_s)
                    woken.set_result(None)
                    for _ in range(3):
                        await asyncio.sleep(0)

        asyncio.run(go())


def test_a_flood_has_a_fifth_of_the_event_loop():
    loop = Loop()
    loop.handle(100_000, takes_s=0.00001)
    share = 100_000 * 0.00001 / (loop.now_s - 100)
    assert 0.19 < share < 0.21  # the flood goes on


def test_many_floods_together_have_no_more():
    loop = Loop()
    loop.handle(10_000, takes_s=0.00001, programs=10)
    share = 100_000 * 0.00001 / (loop.now_s - 100)
    assert 0.19 < share < 0.21


def test_no_slice_of_a_flood_is_longer_than_it_may_be_and_one_line():
    loop = Loop()
    loop.handle(1000, takes_s=0.0002)
    slices = [began_s - (ended_s + rested_s) for (ended_s, rested_s), (began_s, _) in pairwise(loop.rests)]
    assert max(slices) <= SLICE_S + 0.00021


def test_each_long_line_is_followed_by_a_rest():
    loop = Loop()
    loop.handle(20, takes_s=0.01)
    assert len(loop.rests) == 20
    assert all(rested_s > 0.99 * REST_S for _, rested_s in loop.rests)


def test_lines_that_come_now_and_then_do_not_wait():
    loop = Loop()
    loop.handle(1000, takes_s=0.0001, comes_after_s=0.003)
    assert loop.rests == []
