"""Many readers of one stream: they share each read, and a slow or lost one harms no other."""

import asyncio
from itertools import pairwise

from functions import api
from shared.db.engine.connection import transaction
from shared.db.queue import events
from shared.rest.http.event_stream import EventStream
from shared.rest.live.feed import EventBatch, EventFeed
from shared.rest.live.frames import EventFrames

# -- many readers


def test_many_readers_cause_one_read_of_each_row(serving, append, conn):
    """Counts the statements of the connection: one read serves any number of readers."""
    statements = []

    async def go():
        async with serving(api):
            service = api._service.get()
            service.reader.trace_v2(1, lambda event: statements.append(event["sql"]))
            feeds = [service.feed.read(0) for _ in range(50)]
            reading = [asyncio.create_task(anext(each)) for each in feeds]
            await asyncio.sleep(0)
            append("first")
            await asyncio.wait_for(asyncio.gather(*reading), 60)
            statements.clear()
            reading = [asyncio.create_task(anext(each)) for each in feeds]
            await asyncio.sleep(0)
            append("second")
            found = await asyncio.wait_for(asyncio.gather(*reading), 60)
            for each in feeds:
                await each.aclose()
            assert service.feed.readers == 0
            return found

    found = asyncio.run(go())
    assert all(b"id: 2\nevent: second" in each for each in found)
    assert sum("FROM events" in sql for sql in statements) <= 3


def test_a_reader_behind_the_kept_batches_reads_the_rows(conn):
    async def go():
        news = asyncio.Event()

        async def wait(_):
            await news.wait()
            news.clear()

        feed = EventFeed(conn, wait, batch=10, kept_bytes=1)
        slow, quick = feed.read(0), feed.read(0)
        with transaction(conn):
            events.append(conn, "e", now_ms=1)
        seen = {"slow": await anext(slow), "quick": await anext(quick)}
        for _ in range(10):
            with transaction(conn):
                for _ in range(10):
                    events.append(conn, "e", now_ms=1)
            news.set()
            seen["quick"] += await asyncio.wait_for(anext(quick), 60)
        while seen["quick"].count(b"id:") < 101:
            seen["quick"] += await asyncio.wait_for(anext(quick), 60)
        while seen["slow"].count(b"id:") < 101:
            seen["slow"] += await asyncio.wait_for(anext(slow), 60)
        kept = feed.kept_bytes
        await slow.aclose()
        await quick.aclose()
        return seen, kept

    seen, kept = asyncio.run(go())
    assert kept < 1000
    for text in seen.values():
        numbers = [int(line[4:]) for line in text.decode().splitlines() if line.startswith("id: ")]
        assert numbers == list(range(1, 102))
        assert all(after == before + 1 for before, after in pairwise(numbers))


def test_a_batch_is_sent_from_the_position_of_the_reader():
    batch = EventBatch(4, tuple(EventFrames(id_, (("e", b"event: e\n\n"),)) for id_ in (5, 7, 8)))
    told = {last: batch.since(last, None).count(b"event") for last in range(3, 9)}
    assert told == {3: 3, 4: 3, 5: 2, 6: 2, 7: 1, 8: 0}
    assert batch.since(4, {"other"}) == b""


def test_a_comment_during_silence_carries_the_position(conn):
    """A reader that got no event of its names continues from there when it comes back."""
    with transaction(conn):
        events.append(conn, "other", now_ms=1)

    async def go():
        async def wait(seconds):
            await asyncio.sleep(min(seconds, 0.02))

        feed = EventFeed(conn, wait, comment_every_s=0.05)
        reading = feed.read(0, frozenset(["mine"]))
        found = [await asyncio.wait_for(anext(reading), 60) for _ in range(2)]
        await reading.aclose()
        return found

    assert asyncio.run(go()) == [b"id: 1\n: still here\n\n", b": still here\n\n"]


def test_streams_end_when_the_function_does(serving, conn):
    async def go():
        async with serving(api):
            reading = asyncio.create_task(anext(api._service.get().feed.read(0), "ended"))
            await asyncio.sleep(0.01)
            assert not reading.done()
        return await asyncio.wait_for(reading, 10)

    assert asyncio.run(go()) == "ended"


def _reading(feed, send, receive):
    stream = EventStream(feed.read(0), patience_s=0.05)
    return asyncio.create_task(stream({"type": "http"}, receive, send))


async def _never(*_):
    await asyncio.sleep(300)


def test_a_reader_that_reads_nothing_is_disconnected(conn):
    with transaction(conn):
        events.append(conn, "e", now_ms=1)

    async def go():
        feed = EventFeed(conn, _never)

        async def stuck(message):
            if message["type"] == "http.response.body":
                await _never()

        await asyncio.wait_for(_reading(feed, stuck, _never), 60)
        return feed.readers

    assert asyncio.run(go()) == 0


def test_a_reader_that_disconnects_leaves_nothing_behind(conn):
    async def go():
        feed = EventFeed(conn, _never)
        gone = asyncio.Event()

        async def leave():
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(_):
            pass

        reading = _reading(feed, send, leave)
        while not feed.readers:  # noqa: ASYNC110 - no event announces a reader
            await asyncio.sleep(0)
        gone.set()
        await asyncio.wait_for(reading, 60)
        return feed.readers, len(asyncio.all_tasks())

    assert asyncio.run(go()) == (0, 1)


def test_a_disconnect_in_the_instant_of_an_event_is_not_lost(conn):
    async def go():
        woken = asyncio.Event()

        async def news(_):
            await woken.wait()
            woken.clear()

        feed = EventFeed(conn, news)
        reading = asyncio.create_task(anext(feed.read(0)))
        await asyncio.sleep(0.01)
        with transaction(conn):
            events.append(conn, "e", now_ms=1)
        woken.set()
        while feed.kept_bytes == 0:  # noqa: ASYNC110 - the same turn of the loop that wakes the reader
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait((reading,), timeout=60)
        return reading.cancelled()

    assert asyncio.run(go())


def test_the_last_chosen_frame_carries_the_id():
    row = EventFrames(7, (("a", b"event: a\n\n"), ("b", b"event: b\n\n"), ("c", b"event: c\n\n")))
    assert row.frames() == b"event: a\n\nevent: b\n\nid: 7\nevent: c\n\n"
    assert row.frames({"a", "b"}) == b"event: a\n\nid: 7\nevent: b\n\n"
    assert row.frames({"d"}) == b""
