"""Open pages are told that something has changed, by one look for all of them, and one after the other."""

import asyncio
from itertools import pairwise

import apsw

from functions import api
from shared.db.engine.connection import transaction
from shared.db.queue import events
from shared.rest.live.news import ChangeNews
from shared.runtime.kick import Kicker
from tests.api_client import stream


def append(conn):
    with transaction(conn):
        events.append(conn, "e", now_ms=1)


class House:
    """News of a database, and the readers of it; *happen* appends an event and wakes the look."""

    def __init__(self, conn, **options):
        self.conn = conn
        self.spent_s = 0.0
        self._woken = asyncio.Event()
        self.news = ChangeNews(conn, self._wait, lambda: self.spent_s, **options)

    async def _wait(self, timeout_s):
        await self._woken.wait()
        self._woken.clear()

    def happen(self):
        append(self.conn)
        self._woken.set()

    async def readers(self, count):
        """So many that wait for their first frame."""
        reading = [asyncio.create_task(anext(self.news.read())) for _ in range(count)]
        while self.news.readers < count:  # noqa: ASYNC110 - no event announces a reader
            await asyncio.sleep(0)
        return reading


def test_a_page_is_told_of_a_change_of_another_process(serving, conn, environment):
    append(conn)
    kicker = Kicker(environment)

    async def go():
        async with serving(api), stream(path="/api/events/changes") as queue:
            append(conn)
            kicker.kick("api")
            return await asyncio.wait_for(queue.get(), 60)

    assert asyncio.run(go()) == {"event": "changed", "data": '{"newest": 2}'}
    kicker.close()


def test_one_look_serves_all_and_they_are_told_a_tenth_of_a_second_apart(conn):
    asked = []

    async def go():
        house = House(conn)
        reading = await house.readers(4)
        conn.trace_v2(apsw.SQLITE_TRACE_STMT, lambda told: asked.append(told["sql"]))
        loop, told_at = asyncio.get_running_loop(), []
        for each in reading:
            each.add_done_callback(lambda _: told_at.append(loop.time()))
        house.happen()
        frames = await asyncio.wait_for(asyncio.gather(*reading), 60)
        await house.news.close()
        return frames, told_at

    frames, told_at = asyncio.run(go())
    assert frames == [b'event: changed\ndata: {"newest": 1}\n\n'] * 4
    assert all(later - earlier > 0.09 for earlier, later in pairwise(told_at))
    assert len([sql for sql in asked if "max(id)" in sql]) <= 2


def test_a_reader_is_told_of_many_changes_once(conn):
    async def go():
        house = House(conn)
        frames = house.news.read()
        first = asyncio.create_task(anext(frames))
        while not house.news.readers:  # noqa: ASYNC110 - no event announces a reader
            await asyncio.sleep(0)
        for _ in range(5):
            house.happen()
        found = await asyncio.wait_for(first, 60)
        await frames.aclose()
        return found, house.news.readers

    assert asyncio.run(go()) == (b'event: changed\ndata: {"newest": 5}\n\n', 0)


def test_what_the_readers_ask_for_is_spread_over_twenty_times_as_long(conn):
    """A reader whose read took 20 ms of a processor: the next is told 400 ms later, and not 100."""

    async def go():
        house, loop, told_at = House(conn), asyncio.get_running_loop(), []
        for each in (reading := await house.readers(2)):
            each.add_done_callback(lambda _: told_at.append(loop.time()))
        reading[0].add_done_callback(lambda _: setattr(house, "spent_s", 0.02))
        house.happen()
        await asyncio.wait_for(asyncio.gather(*reading), 60)
        await house.news.close()
        return told_at

    first, second = asyncio.run(go())
    assert second - first > 0.39


def test_a_reader_is_told_without_a_change_too_and_the_end_is_the_end(conn):
    async def go():
        house = House(conn, at_least_every_s=0.0)
        frames = house.news.read()
        told = await asyncio.wait_for(anext(frames), 60)
        await house.news.close()
        return told, [piece async for piece in frames]

    assert asyncio.run(go()) == (b'event: changed\ndata: {"newest": 0}\n\n', [])
