"""The share of the event loop that a program's lines get."""

import asyncio

from shared.agents.programs.pace import REST_S, SLICE_S, Pace


class Loop:
    """A clock that work and rests move."""

    def __init__(self):
        self.now_s = 100.0
        self.rests = []

    async def sleep(self, seconds):
        self.rests.append(self.now_s)
        self.now_s += seconds

    def handle(self, lines, *, takes_s, comes_after_s=0.0):
        pace = Pace(lambda: self.now_s, self.sleep)

        async def go():
            for _ in range(lines):
                self.now_s += comes_after_s
                pace.begin()
                self.now_s += takes_s
                await pace.rest()

        asyncio.run(go())


def test_a_flood_has_a_fifth_of_the_event_loop():
    loop = Loop()
    loop.handle(100_000, takes_s=0.00001)
    share = 100_000 * 0.00001 / (loop.now_s - 100)
    assert 0.19 < share < 0.21  # the flood goes on


def test_no_slice_of_a_flood_is_longer_than_it_may_be_and_one_line():
    loop = Loop()
    loop.handle(1000, takes_s=0.0002)
    slices = [later - earlier - REST_S for earlier, later in zip(loop.rests, loop.rests[1:], strict=False)]
    assert max(slices) <= SLICE_S + 0.00021


def test_each_long_line_is_followed_by_a_rest():
    loop = Loop()
    loop.handle(20, takes_s=0.01)
    assert len(loop.rests) == 20


def test_lines_that_come_now_and_then_do_not_wait():
    loop = Loop()
    loop.handle(1000, takes_s=0.0001, comes_after_s=0.003)
    assert loop.rests == []
