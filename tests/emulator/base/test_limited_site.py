import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from emulator.base.limited_site import LimitedSite

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


async def _hello(_: web.Request) -> web.Response:
    return web.Response()


async def _body(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    await asyncio.Event().wait()
    return response


def play(scenario: Callable[[Connect], Awaitable[None]], **limits: Any) -> None:
    """Run *scenario* against a site with these *limits*."""

    writers: list[asyncio.StreamWriter] = []

    async def go() -> None:
        app = web.Application()
        app.router.add_get("/", _hello)
        app.router.add_get("/stream", _stream)
        app.router.add_post("/body", _body)
        site = LimitedSite("the test", app, shutdown_timeout=0.1, **limits)
        sock = socket.create_server(("127.0.0.1", 0))

        async def connect() -> Streams:
            streams = await asyncio.open_connection(*sock.getsockname())
            writers.append(streams[1])
            return streams

        await site.start(sock)
        try:
            async with asyncio.timeout(90):
                await scenario(connect)
        finally:
            for writer in writers:
                writer.close()
            await site.stop()

    asyncio.run(go())


async def ask(streams: Streams, sent: bytes) -> bytes:
    """The head of the answer; empty if the connection was closed without one."""
    streams[1].write(sent)
    try:
        return await streams[0].readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def test_the_connection_that_is_silent_for_the_longest_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(connect: Connect) -> None:
        silent, kept = await connect(), await connect()
        assert b" 200 " in await ask(kept, GET + b"\r\n")
        assert b" 200 " in await ask(await connect(), GET + b"\r\n")
        assert await ask(silent, GET + b"\r\n") == b""
        assert b" 200 " in await ask(kept, GET + b"\r\n")

    with caplog.at_level(logging.WARNING):
        play(scenario, limit=2)
    assert "connections of the test: 1 silent, closed for others; the limit is 2" in caplog.text


def test_a_client_that_does_not_finish_its_body_is_silent() -> None:
    async def scenario(connect: Connect) -> None:
        unfinished = await connect()
        unfinished[1].write(b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhell")
        finished = await connect()
        assert b" 200 " in await ask(finished, b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
        assert b" 200 " in await ask(await connect(), GET + b"\r\n")
        assert await ask(unfinished, b"") == b""

    play(scenario, limit=2)


def test_a_stream_is_not_silent_and_a_connection_too_many_is_told() -> None:
    async def scenario(connect: Connect) -> None:
        stream = await connect()
        stream[1].write(b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await stream[0].readuntil(b"begun")
        assert b" 503 " in await ask(await connect(), b"")
        assert not stream[0].at_eof()

    play(scenario, limit=1)


def test_a_client_that_does_not_finish_its_head_is_disconnected() -> None:
    async def scenario(connect: Connect) -> None:
        for sent in (b"", GET):
            assert await ask(await connect(), sent) == b""

    play(scenario, silent_s=0.05)


UNREADABLE = {
    "a long URL": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "a long header": (GET + b"X: " + b"a" * 9000 + b"\r\n\r\n", 431),
    "no HTTP": (b"\x16\x03\x01\x02\r\n\r\n", 400),
    "a host that does not end": (b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
    "a line break in the path": (b"GET /%0A HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a line break in the middle of the path": (b"GET /a%0Ab HTTP/1.1\r\nHost: x\r\n\r\n", 400),
}


@pytest.mark.parametrize(("sent", "status"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_malformed_request_gets_a_sentence_and_no_traceback(
    caplog: pytest.LogCaptureFixture, sent: bytes, status: int
) -> None:
    async def scenario(connect: Connect) -> None:
        head = await ask(await connect(), sent)
        assert int(head.split()[1]) == status
        assert b"application/json" in head

    with caplog.at_level(logging.WARNING):
        play(scenario)
    assert [record for record in caplog.records if record.exc_info] == []
