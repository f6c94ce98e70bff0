"""The gateway routes like a load balancer, streams, repeats requests cut by a reload, and names what is down."""

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from emulator.base.door import Door
from emulator.base.faults import Fault, Faults
from emulator.base.limited_site import LimitedSite
from emulator.system.gateway import Gateway, Router, Upstream
from infra.template.specs import RouteSpec


def route(pattern: str, function: str, methods: tuple[str, ...] = (), priority: int = 1) -> RouteSpec:
    return RouteSpec(pattern, methods, function, priority, line=1)


RULES = (
    route("/*", "api", priority=100),
    route("/webhooks/*", "ingest", ("GET", "POST"), priority=10),
    route("/exact", "exact", priority=20),
    route("/v?/[x]", "odd", priority=30),
)
DOOR = Door("the-token-of-the-file", "postroom.db-api-token")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.mark.parametrize(
    ("method", "path", "function"),
    [
        ("POST", "/webhooks/telegram", "ingest"),
        ("DELETE", "/webhooks/telegram", "api"),
        ("POST", "/webhooks", "api"),
        ("GET", "/exact", "exact"),
        ("GET", "/exact/more", "api"),
        ("GET", "/v1/[x]", "odd"),
        ("GET", "/v1/x", "api"),
    ],
)
def test_the_lowest_priority_that_matches_wins(method: str, path: str, function: str) -> None:
    assert Router(RULES).find(method, path) == function


def test_a_path_without_a_route_finds_no_function() -> None:
    assert Router([route("/api/*", "api")]).find("GET", "/") is None


async def _ready_status() -> dict[str, Any]:
    return {"ready": True, "notReady": []}


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    """The application on a free port."""
    site = LimitedSite("the test", app, handler_cancellation=True)
    sock = socket.create_server(("127.0.0.1", 0))
    await site.start(sock)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        await site.stop()


@asynccontextmanager
async def behind_gateway(handler: Handler, upstream: Upstream | None = None) -> AsyncIterator[tuple[str, Any]]:
    """A function with *handler*, a gateway before it, and a client."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with served(app) as function:
        place = upstream or Upstream(int(function.rpartition(":")[2]))
        gateway = Gateway(
            [route("/*", "api")],
            lambda _: place,
            status=_ready_status,
            platforms=lambda: function,
            door=DOOR,
        )
        async with served(gateway.application()) as url, aiohttp.ClientSession() as client:
            yield url, client


def test_it_is_ready_as_the_status_says() -> None:
    """A full disk, which only the status told, once left it ready."""

    async def status() -> dict[str, Any]:
        return {"ready": not said, "notReady": said, "needsYou": ["nobody is an owner"]}

    async def scenario() -> None:
        gateway = Gateway([], lambda _: Upstream(1), status=status, platforms=lambda: None, door=DOOR)
        async with served(gateway.application()) as url, aiohttp.ClientSession() as client:
            async with client.get(f"{url}/_emulator/ready") as answer:
                assert (answer.status, await answer.json()) == (200, {"status": "ready"})
            said.extend(["0 MB are free", "ingest is down: it ended"])
            async with client.get(f"{url}/_emulator/ready") as answer:
                assert answer.status == 503
                assert await answer.json() == {"error": "not ready: 0 MB are free; ingest is down: it ended"}

    said: list[str] = []
    asyncio.run(scenario())


def test_path_query_headers_and_body_arrive_as_they_were_sent() -> None:
    async def echo(request: web.Request) -> web.Response:
        body = await request.read()
        return web.json_response(
            {"path": request.raw_path, "x": request.headers["X-Own"], "body": body.decode(), "method": request.method},
            headers={"X-Back": "yes"}, status=418,
        )  # fmt: skip

    async def scenario() -> None:
        async with (
            behind_gateway(echo) as (url, client),
            client.put(f"{url}/a%2Fb/c?q=1%202", data=b"hello", headers={"X-Own": "1"}) as answer,
        ):
            assert (answer.status, answer.headers["X-Back"]) == (418, "yes")
            assert await answer.json() == {"path": "/a%2Fb/c?q=1%202", "x": "1", "body": "hello", "method": "PUT"}

    asyncio.run(scenario())


def test_an_event_stream_arrives_piece_by_piece() -> None:
    """The second event is sent only after the first was received: buffering would deadlock."""

    async def scenario() -> None:
        received = asyncio.Event()

        async def events(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"data: one\n\n")
            await asyncio.wait_for(received.wait(), 60)
            await response.write(b"data: two\n\n")
            return response

        async with behind_gateway(events) as (url, client), client.get(url) as answer:
            assert await answer.content.readuntil(b"\n\n") == b"data: one\n\n"
            received.set()
            assert await answer.content.readuntil(b"\n\n") == b"data: two\n\n"

    asyncio.run(scenario())


def test_a_large_body_streams_through_whole() -> None:
    async def count(request: web.Request) -> web.Response:
        total = 0
        async for piece in request.content.iter_any():
            total += len(piece)
        return web.json_response(total)

    async def scenario() -> None:
        async with (
            behind_gateway(count) as (url, client),
            client.post(url, data=io.BytesIO(b"x" * 5_000_000)) as answer,
        ):
            assert await answer.json() == 5_000_000

    asyncio.run(scenario())


def test_a_client_that_leaves_ends_the_functions_request() -> None:
    async def scenario() -> None:
        left = asyncio.Event()

        async def forever(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                while True:
                    await response.write(b".")
                    await asyncio.sleep(0.01)
            finally:
                left.set()

        async with behind_gateway(forever) as (url, client), client.get(url) as answer:
            await answer.content.readany()
            answer.close()
            await asyncio.wait_for(left.wait(), 60)

    asyncio.run(scenario())


def test_a_connection_that_closed_while_idle_loses_no_request() -> None:
    """What a reload does: the old process closes its kept-alive connections."""

    async def scenario() -> None:
        requests = 0

        async def one_then_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal requests
            await reader.readuntil(b"\r\n\r\n")
            requests += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
            await reader.read(1)  # the next request arrives on this connection, which then closes
            writer.close()

        server = await asyncio.start_server(one_then_close, "127.0.0.1", 0)
        place = Upstream(server.sockets[0].getsockname()[1])
        gateway = Gateway(
            [route("/*", "api")],
            lambda _: place,
            status=_ready_status,
            platforms=lambda: None,
            door=DOOR,
        )
        async with served(gateway.application()) as url, aiohttp.ClientSession() as client:
            for _ in range(4):
                async with client.post(url, data=b"body") as answer:
                    assert answer.status == 200
        assert requests == 4
        server.close()

    asyncio.run(scenario())


def test_a_request_on_a_new_connection_is_never_sent_twice() -> None:
    """The function may have acted; only a request that surely did not begin is repeated."""

    async def scenario() -> None:
        requests = 0

        async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal requests
            await reader.readuntil(b"\r\n\r\n")
            requests += 1
            writer.close()

        server = await asyncio.start_server(drop, "127.0.0.1", 0)
        place = Upstream(server.sockets[0].getsockname()[1])
        gateway = Gateway(
            [route("/*", "api")],
            lambda _: place,
            status=_ready_status,
            platforms=lambda: None,
            door=DOOR,
        )
        async with (
            served(gateway.application()) as url,
            aiohttp.ClientSession() as client,
            client.post(url, data=b"body") as answer,
        ):
            assert answer.status == 502
            assert "closed the connection" in (await answer.json())["error"]
        assert requests == 1
        server.close()

    asyncio.run(scenario())


def test_a_function_that_is_down_gives_502_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.system.gateway.COMING_BACK_S", 0.05)

    async def unused(_: web.Request) -> web.Response:
        raise AssertionError

    async def scenario() -> None:
        async with (
            behind_gateway(unused, Upstream(1, "it ended with code 1")) as (url, client),
            client.get(url) as answer,
        ):
            assert answer.status == 502
            assert json.loads(await answer.text()) == {"error": "api is down: it ended with code 1"}

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/_emulator/status", "/_emulator/chat"])
def test_a_request_with_a_foreign_host_reads_nothing(path: str) -> None:
    async def unused(_: web.Request) -> web.Response:
        raise AssertionError

    async def scenario() -> None:
        async with (
            behind_gateway(unused) as (url, client),
            client.get(url + path, headers={"Host": "evil.example:8080"}) as answer,
        ):
            assert answer.status == 403

    asyncio.run(scenario())


def test_the_chat_page_is_passed_on_to_the_platforms() -> None:
    async def tell(request: web.Request) -> web.Response:
        return web.Response(text=request.raw_path)

    async def scenario() -> None:
        async with (
            behind_gateway(tell) as (url, client),
            client.get(f"{url}/_emulator/chat/telegram/events?x=1") as answer,
        ):
            assert await answer.text() == "/chat/telegram/events?x=1"

    asyncio.run(scenario())


def test_a_slow_network_delays_webhooks_and_no_other_request() -> None:
    network = Faults("network", lambda: 0)
    network.add(Fault.parse("network", {"kind": "slow", "delay_ms": 1, "times": 1}))

    async def scenario() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", _plain)
        async with served(app) as function:
            port = int(function.rpartition(":")[2])
            gateway = Gateway(
                RULES, lambda _: Upstream(port), status=_ready_status, platforms=lambda: None, door=DOOR,
                network=network,
            )  # fmt: skip
            async with served(gateway.application()) as url, aiohttp.ClientSession() as client:
                for path, left in (("/api/queue", 1), ("/webhooks/telegram", 0)):
                    async with client.post(url + path) as answer:
                        assert answer.status == 200
                    assert len(network.standing()) == left

    asyncio.run(scenario())


async def _plain(_: web.Request) -> web.Response:
    return web.Response()
