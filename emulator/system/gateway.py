"""The one address in front of all functions, like the load balancer of the template.

Bodies stream both ways without waiting for their end, so server-sent events arrive as they are sent. A reload can close
a connection just as a request goes out on it; that request is sent a second time. No other failure is hidden.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from emulator.base.door import Door, is_other_user
from emulator.base.faults import Faults
from infra.template.specs import RouteSpec
from shared.core import http_head

REPLAYABLE_BYTES = 1 << 20  # bodies up to this size are kept in memory, so that they can be sent twice
CHUNK_BYTES = 1 << 16
COMING_BACK_S = 3.0  # how long a request waits for a function that is being restarted
_PREFIX = "/_emulator"
# https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


class Upstream(msgspec.Struct, frozen=True):
    """The port of a function, and the reason if it can't answer."""

    port: int
    problem: str | None = None


class Router:
    """Finds the function for a request by the matching rule of the lowest priority, as a load balancer does."""

    def __init__(self, routes: Sequence[RouteSpec]) -> None:
        ordered = sorted(routes, key=lambda route: route.priority)
        self._rules = [(_pattern(route.path_pattern), frozenset(route.methods), route.function) for route in ordered]

    def find(self, method: str, path: str) -> str | None:
        for pattern, methods, function in self._rules:
            if pattern.fullmatch(path) and (not methods or method in methods):
                return function
        return None


class Gateway:
    """Passes each request on to its function, and answers the emulator's own paths below ``/_emulator``.

    Args:
        upstream: the present port of a function.
        status: the answer to ``/_emulator/status``; ``/_emulator/ready`` has what is not ready of it.
        platforms: the address of the fake platforms; None while they are down.
        door: who may use the emulator's own paths.
        network: the faults between the functions and the fake platforms.
    """

    def __init__(
        self,
        routes: Sequence[RouteSpec],
        upstream: Callable[[str], Upstream],
        *,
        status: Callable[[], Awaitable[dict[str, Any]]],
        platforms: Callable[[], str | None],
        door: Door,
        network: Faults | None = None,
    ) -> None:
        self._network = network
        self.router = Router(routes)
        self._upstream = upstream
        self._status = status
        self._platforms = platforms
        self._door = door
        self._session: aiohttp.ClientSession | None = None

    def application(self, more: Sequence[web.RouteDef] = ()) -> web.Application:
        """The application; *more*: further paths of the emulator's own."""
        app = web.Application(client_max_size=REPLAYABLE_BYTES)
        app.add_routes(more)
        app.cleanup_ctx.append(self._client)
        app.router.add_get(f"{_PREFIX}/ready", self._answer_ready)
        app.router.add_get(f"{_PREFIX}/health", self._answer_health)
        app.router.add_get(f"{_PREFIX}/status", self._answer_status)
        app.router.add_route("*", f"{_PREFIX}/chat{{rest:.*}}", self._answer_chat)
        app.router.add_route("*", f"{_PREFIX}/accounts/{{account}}/chat{{rest:.*}}", self._answer_chat)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def post(self, url: str, headers: Mapping[str, str], *, limit_s: float) -> int:
        """Send an empty POST, such as a tick; returns the status of the response.

        Raises:
            aiohttp.ClientError, TimeoutError: no response came.
        """
        limit = aiohttp.ClientTimeout(limit_s)
        async with self._client_session.post(url, headers=headers, timeout=limit) as response:
            return response.status

    async def answers(self, url: str, *, limit_s: float) -> bool:
        """Whether a GET of *url* gets any response in time."""
        try:
            async with self._client_session.get(url, timeout=aiohttp.ClientTimeout(limit_s)):
                return True
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def read_json(self, url: str, headers: Mapping[str, str], *, limit_s: float) -> Any:
        """The response to a GET of *url*; None where none comes in time, or another than 200."""
        try:
            limit = aiohttp.ClientTimeout(limit_s)
            async with self._client_session.get(url, headers=headers, timeout=limit) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None

    async def _client(self, _: web.Application) -> Any:
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_remember_reuse)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4),  # the functions keep theirs for longer
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[trace],
        )
        yield
        await self._session.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        function = self.router.find(request.method, request.path)
        if function is None:
            return _sentence(404, f"no route of template.yaml serves {request.method} {request.path}")
        if function == "ingest" and self._network is not None and (fault := self._network.take()) is not None:
            await asyncio.sleep(fault.delay_ms / 1000)
        upstream = await self._wait_for(function)
        if upstream.problem:
            return _sentence(502, f"{function} is down: {upstream.problem}")
        url = URL(f"http://127.0.0.1:{upstream.port}{request.rel_url.raw_path_qs}", encoded=True)
        return await self._pass_on(request, url, function)

    async def _answer_chat(self, request: web.Request) -> web.StreamResponse:
        base = self._platforms()
        if (refused := self._door.refuse(request)) is not None:
            return refused
        if base is None:
            return _sentence(503, "the fake platforms are not up yet; if this lasts, see the emulator's log")
        rest = request.rel_url.raw_path_qs.removeprefix(_PREFIX)
        return await self._pass_on(request, URL(f"{base}{rest}", encoded=True), "the fake platforms")

    async def _answer_ready(self, _: web.Request) -> web.Response:
        found = (await self._status())["notReady"]
        return _sentence(503, f"not ready: {'; '.join(found)}") if found else _sentence(200, "ready")

    async def _answer_health(self, _: web.Request) -> web.Response:
        return _sentence(200, "alive")

    async def _answer_status(self, request: web.Request) -> web.Response:
        if (refused := self._door.refuse(request)) is not None:
            return refused
        return web.json_response(await self._status())

    async def _wait_for(self, function: str) -> Upstream:
        """The function's address; a function that is being restarted gets some time to come back."""
        deadline = asyncio.get_running_loop().time() + COMING_BACK_S
        while True:
            upstream = self._upstream(function)
            if upstream.problem is None or asyncio.get_running_loop().time() > deadline:
                return upstream
            await asyncio.sleep(0.02)

    async def _pass_on(self, request: web.Request, url: URL, receiver: str) -> web.StreamResponse:
        headers = _request_headers(request)
        body: bytes | None = None
        if request.can_read_body and (
            request.content_length is not None and request.content_length <= REPLAYABLE_BYTES
        ):
            body = await request.read()
        streams = request.can_read_body and body is None
        for attempt in (1, 2):
            trace = SimpleNamespace(reused=False)
            try:
                upstream = await self._client_session.request(
                    request.method,
                    url,
                    headers=headers,
                    data=request.content.iter_chunked(CHUNK_BYTES) if streams else body,
                    allow_redirects=False,
                    trace_request_ctx=trace,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # A reused connection that closes before the first byte was already closing when the request went out.
                if (
                    attempt == 1
                    and trace.reused
                    and not streams
                    and not isinstance(error, aiohttp.ClientConnectorError)
                ):
                    continue
                return _sentence(
                    502, f"{receiver} closed the connection without a response; its last lines are in the log"
                )
            except (aiohttp.ClientError, TimeoutError) as error:
                return _sentence(
                    502, f"{receiver} did not answer: {type(error).__name__}; its last lines are in the log"
                )
            return await _stream_back(request, upstream)
        raise AssertionError("unreachable")

    @property
    def _client_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the gateway is not started")
        return self._session


async def _stream_back(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    """Send status and headers at once, then each piece as it comes. A client that leaves closes both sides."""
    async with upstream:
        response = web.StreamResponse(status=upstream.status, reason=upstream.reason)
        for name, value in upstream.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                response.headers.add(name, value)
        await response.prepare(request)
        try:
            async for piece in upstream.content.iter_any():
                await response.write(piece)
        except aiohttp.ClientError:
            # The function ended in the middle. End the same way, or the client takes the part for the whole.
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        return response


async def _remember_reuse(_: aiohttp.ClientSession, context: SimpleNamespace, __: Any) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.reused = True


def _request_headers(request: web.Request) -> CIMultiDict[str]:
    """The headers for the function, without those that are for this connection only.

    Those of a proxy stay, or ``api`` would take its callers for this machine's. For the same reason the gateway adds
    one for a caller that is not known to be of this user: ``api`` sees only the gateway's connection.
    """
    headers: CIMultiDict[str] = CIMultiDict()
    named = {name.strip().lower() for value in request.headers.getall("Connection", ()) for name in value.split(",")}
    for name, value in request.headers.items():
        is_checked = name.lower() == "host" or http_head.proxy_header((name,)) is not None  # by the functions
        if is_checked or name.lower() not in _HOP_BY_HOP | named:
            headers.add(name, value)
    if is_other_user(request):
        headers[http_head.OTHER_USER] = "1"
    return headers


def _pattern(path: str) -> re.Pattern[str]:
    """A load balancer's path pattern: ``*`` any characters, ``?`` one.

    Source: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html
    """
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in path), re.DOTALL)


def _sentence(status: int, text: str) -> web.Response:
    return web.json_response({"error" if status >= 400 else "status": text}, status=status)
