"""An aiohttp application on a socket, with limits: the number of connections, and how long a client may be silent.

aiohttp itself limits a head: 8190 bytes for the request line and for each header, and 128 headers.
"""

import asyncio
import json
import logging
import socket
from collections import Counter
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler

from emulator.base.connection_room import ConnectionRoom
from shared.core import http_head
from shared.runtime import connected_user
from shared.runtime.open_files import connection_limit

SILENT_S = 30.0  # from the beginning of a connection, or from a response, to the head of the next request
_SITES = 2  # the gateway and the fake platforms share one process, and its file descriptors

log = logging.getLogger(__name__)


class LimitedSite:
    """Serves *app*. Where connections become too many, the one that waits for its client for the longest is closed.

    A request whose Host or path is malformed gets 400 before *app* reads it.

    Args:
        name: names it in the log, which gets a line about closed connections every ten seconds at most.
        limit: how many connections there may be; None: this site's share of the file descriptors.
        silent_s: how long a client may be silent.
        options: those of ``web.AppRunner``.
    """

    def __init__(
        self,
        name: str,
        app: web.Application,
        *,
        limit: int | None = None,
        silent_s: float = SILENT_S,
        **options: Any,
    ) -> None:
        app.middlewares[:0] = [self._mark_busy, _well_formed_only]
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, **options)
        self._name = name
        self.silent_s = silent_s
        self.room: ConnectionRoom[web.RequestHandler] = ConnectionRoom(
            limit or connection_limit(_SITES), web.RequestHandler.force_close, self._tell
        )
        self._listener: asyncio.Server | None = None
        self._answering: set[web.RequestHandler] = set()

    async def start(self, sock: socket.socket) -> None:
        """Serve on the bound socket *sock*."""
        await self._runner.setup()
        self._listener = await asyncio.get_running_loop().create_server(self._new_connection, sock=sock)

    async def stop(self) -> None:
        """End all connections. Safe to call twice, and after a start that failed."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    def open(self, new: "_Connection") -> None:
        """A client has connected: make room for it, or refuse it if every other connection has a request under way."""
        if not self.room.enter(new):
            new.refuse()

    def _tell(self, closed: Counter[str]) -> None:
        counts = "; ".join(f"{count} {name}" for name, count in closed.items())
        log.warning(
            "connections of %s: %s; the limit is %d, by the open files (ulimit -n)", self._name, counts, self.room.limit
        )

    def _new_connection(self) -> "_Connection":
        server = self._runner.server
        if server is None:
            raise RuntimeError("the site is not started")
        return _Connection(self, server)

    @web.middleware
    async def _mark_busy(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.protocol
        self._answering.add(connection)
        request.content.on_eof(lambda: self._heard(connection))  # at once where there is no body
        try:
            return await handler(request)
        finally:
            self._answering.discard(connection)
            self.room.listen(connection)

    def _heard(self, connection: web.RequestHandler) -> None:
        """The whole request has come, perhaps only after its answer."""
        if connection in self._answering:
            self.room.hear(connection)


@web.middleware
async def _well_formed_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    problem = http_head.host_problem(request.host) or http_head.path_problem(request.path)
    if problem is not None:
        return web.json_response({"error": problem}, status=400)
    return await handler(request)


def is_own_user(request: web.Request) -> bool:
    """Whether a process of this user sent the request; the kernel is asked once for a connection."""
    return isinstance(request.protocol, _Connection) and request.protocol.is_own_user()


class _Connection(web.RequestHandler):
    """One connection, which tells the site of its beginning and its end."""

    __slots__ = ("_site", "is_own_user")

    def __init__(self, site: LimitedSite, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=site.silent_s,
        )
        self._site = site

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.is_own_user = connected_user.own_user_question(transport.get_extra_info("socket"))
        self._site.open(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._site.room.leave(self)
        super().connection_lost(exc)

    def refuse(self) -> None:
        """Answer 503 and close."""
        body = json.dumps({"error": "too many connections, all with requests under way: try again"}).encode()
        head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        length = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        if self.transport is not None:
            self.transport.write(head + length + body)
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A request that aiohttp can't read is answered as all others are, and is no traceback in the log."""
        if status != 400:
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong):
            self._site.room.count("with a head that is too large, refused")
            status, sentence = 431, "the request line or a header is longer than 8190 bytes: shorten it"
        else:
            sentence = "the request is not valid HTTP/1.1: send it with an HTTP client, and without TLS"
        response = web.json_response({"error": sentence}, status=status)
        response.force_close()
        return response
