"""Long reads run beside the event loop, few at once, and end when their caller disconnects."""

import asyncio
import contextlib
import threading

import apsw
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Route

from functions import api
from shared.db.engine.connection import scalar
from shared.rest.http.background_reads import BackgroundReads
from tests.infra.processes import listening_socket

LONG_S = 30.0


class Slow:
    """Work that runs until it is abandoned, or the test ends it."""

    def __init__(self, *, is_deaf=False):
        self.begun, self.end, self.is_over = threading.Event(), threading.Event(), threading.Event()
        self._is_deaf = is_deaf

    def __call__(self, conn, is_abandoned):
        self.begun.set()
        for _ in range(20_000):  # a test that fails comes to an end
            if self.end.wait(0.002) or (is_abandoned() and not self._is_deaf):
                break
        self.is_over.set()
        return "slow"


def quick(conn, is_abandoned):
    return scalar(conn, "SELECT 'quick'")


async def stays():
    """The ``receive`` of a caller that waits for the answer."""
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def listening(background_reads, **works):
    """A real server of *works* by path; its port."""

    async def answer(request):
        return JSONResponse(await background_reads.read_long(works[request.path_params["name"]], request.receive))

    app = Starlette(routes=[Route("/{name}", answer)])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    sock, port = listening_socket()
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield port
    finally:
        server.should_exit = True
        await task
        sock.close()


async def leaves_when(event, port, path, until):
    """A caller that sends a request and disconnects once *event* is set."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await until(event.is_set)
    writer.close()
    await writer.wait_closed()


def test_a_caller_that_disconnects_frees_its_slot(db, conn, until):
    slow = Slow()

    async def go():
        async with listening(BackgroundReads(db, slots=1, patience_s=LONG_S), slow=slow, quick=quick) as port:
            await leaves_when(slow.begun, port, "/slow", until)
            async with httpx.AsyncClient(timeout=LONG_S) as client:
                return (await client.get(f"http://127.0.0.1:{port}/quick")).json()

    assert asyncio.run(go()) == "quick"
    assert slow.is_over.is_set()


def test_without_a_free_slot_the_answer_is_503_with_retry_after(db, conn, until):
    slow = Slow()

    async def go():
        async with (
            listening(BackgroundReads(db, slots=1, patience_s=0.01), slow=slow, quick=quick) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=LONG_S) as client,
        ):
            first = asyncio.create_task(client.get("/slow"))
            await until(slow.begun.is_set)
            refused = await client.get("/quick")
            slow.end.set()
            return refused, (await first).json(), (await client.get("/quick")).json()

    refused, first, after = asyncio.run(go())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert (first, after) == ("slow", "quick")


def test_a_waiting_caller_gets_the_next_slot(db, conn, until):
    slow = Slow()

    async def go():
        background_reads = BackgroundReads(db, slots=1, patience_s=LONG_S)
        first = asyncio.create_task(background_reads.read_long(slow, stays))
        await until(slow.begun.is_set)
        second = asyncio.create_task(background_reads.read_long(quick, stays))
        await asyncio.sleep(0)
        slow.end.set()
        return await asyncio.gather(first, second)

    assert asyncio.run(go()) == ["slow", "quick"]


def test_a_caller_that_disconnects_while_waiting_takes_no_slot(db, conn, until):
    slow = Slow()

    async def leaves():
        return {"type": "http.disconnect"}

    async def go():
        background_reads = BackgroundReads(db, slots=1, patience_s=LONG_S)
        first = asyncio.create_task(background_reads.read_long(slow, stays))
        await until(slow.begun.is_set)
        with pytest.raises(HTTPException, match="disconnected"):
            await background_reads.read_long(quick, leaves)
        slow.end.set()
        return await first, await background_reads.read_long(quick, stays)

    assert asyncio.run(go()) == ("slow", "quick")


def test_a_slot_is_free_only_when_its_thread_has_ended(db, conn, until):
    """A request is cancelled by its time limit; a thread is not."""
    slow = Slow(is_deaf=True)

    async def go():
        background_reads = BackgroundReads(db, slots=1, patience_s=0.01)
        first = asyncio.create_task(background_reads.read_long(slow, stays))
        await until(slow.begun.is_set)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        with pytest.raises(HTTPException, match="too many long reads"):
            await background_reads.read_long(quick, stays)
        slow.end.set()
        while True:
            with contextlib.suppress(HTTPException):
                return await background_reads.read_long(quick, stays)

    assert asyncio.run(go()) == "quick"


def test_a_read_does_not_block_the_event_loop(db, conn):
    async def go():
        return await BackgroundReads(db).read(lambda *_: threading.current_thread(), stays)

    assert asyncio.run(go()) is not threading.main_thread()


def test_a_read_that_fails_frees_its_slot(db, conn):
    def broken(conn, is_abandoned):
        raise LookupError("broken")

    async def go():
        background_reads = BackgroundReads(db, slots=1, patience_s=LONG_S)
        with pytest.raises(LookupError):
            await background_reads.read_long(broken, stays)
        return await background_reads.read_long(quick, stays)

    assert asyncio.run(go()) == "quick"


def test_connections_stay_open_until_the_end(db, conn):
    def which(conn, is_abandoned):
        return conn

    async def go():
        background_reads = BackgroundReads(db, slots=1, patience_s=LONG_S)
        first, second = [await background_reads.read_long(which, stays) for _ in range(2)]
        background_reads.close()
        return first, second

    first, second = asyncio.run(go())
    assert first is second
    with pytest.raises(apsw.ConnectionClosedError):
        scalar(first, "SELECT 1")


def test_the_connection_of_a_read_that_outlives_the_others_is_closed_when_it_ends(db, conn, until):
    slow, used = Slow(is_deaf=True), []

    def remembered(conn, is_abandoned):
        used.append(conn)
        return slow(conn, is_abandoned)

    async def go():
        background_reads = BackgroundReads(db, slots=1, patience_s=LONG_S)
        reading = asyncio.create_task(background_reads.read_long(remembered, stays))
        await until(slow.begun.is_set)
        background_reads.close()
        slow.end.set()
        await reading

    asyncio.run(go())
    with pytest.raises(apsw.ConnectionClosedError):
        scalar(used[0], "SELECT 1")


def test_searches_use_these_slots(serving, conn, db, until):
    slow = Slow()

    async def go():
        async with serving(api) as client:
            service = api._service.get()
            service.background_reads = BackgroundReads(db, slots=1, patience_s=0.01)
            first = asyncio.create_task(service.background_reads.read_long(slow, stays))
            await until(slow.begun.is_set)
            refused = await client.get("/api/search?q=word")
            slow.end.set()
            await first
            return refused, await client.get("/api/search?q=word")

    refused, after = asyncio.run(go())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert refused.json() == {"error": "too many long reads, such as searches, run at once (limit: 1): try again later"}
    assert (after.status_code, after.json()) == (200, {"found": [], "next": None})
