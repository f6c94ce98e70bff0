"""Limits on the connections of a server: their number, the size of a head, and how long a client may be silent.

A connection is *silent* while its client owes the rest of a request: from its beginning, or from the end of a response,
until the next request is complete. Where connections become too many, the one that is silent for the longest is closed.
One whose request is being answered, such as an event stream, is never closed here.

uvicorn limits none of this for httptools: its ``h11_max_incomplete_event_size`` is for h11 only, and its keep-alive
timer starts after the first response and ends with the first byte of a request.
"""

import asyncio
import json
from collections import Counter
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.core import logs
from shared.core.slim_imports import late
from shared.runtime import connected_user

# Its command line, with click and watchfiles, and what it reads a file of log settings with: 2.9 MB, 30 ms.
with late("uvicorn.main", "Server", "main", "run"), late("logging.config"), late("configparser", "RawConfigParser"):
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
    from uvicorn.server import ServerState

HEALTH_PATH = "/healthz"
HEAD_BYTES = 32 * 1024  # the request line and all headers; a load balancer sends up to 16 KB
MOST_HEADERS = 128
REQUEST_BYTES = 8 * 1024 * 1024  # what follows a head: `read_body` limits bodies, but not chunks and trailers
FIRST_REQUEST_S = 1.0  # at a stop, for the request of a client that has just connected
HEAD_S = 20  # from the beginning of a connection until its first request is complete
KEEP_ALIVE_S = 75  # longer than a load balancer's 60 s; else it could use a connection that we are closing

_TOO_LARGE = (
    f"the head of the request has over {HEAD_BYTES} bytes or {MOST_HEADERS} headers: shorten its URL or headers"
)
_INVALID = "the request is not valid HTTP/1.1: send it with an HTTP client, and without TLS"

log = logs.get()


class Connections(ServerState):
    """The connections of one server: uvicorn's state of them, and which are silent.

    Args:
        limit: how many there may be.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self._silent: dict[LimitedProtocol, float] = {}  # and until when it may be; the longest silent first
        self._closed: Counter[str] = Counter()

    def open(self, new: "LimitedProtocol", now_s: float) -> bool:
        """Add a connection; False if there are too many, and none is silent."""
        is_admitted = len(self.connections) <= self.limit or self.close_oldest_silent()
        self._silent[new] = now_s + HEAD_S
        self.count(refused=not is_admitted)
        return is_admitted

    def listen(self, to: "LimitedProtocol", now_s: float) -> None:
        """Its response is complete: the next request may come."""
        self._silent[to] = now_s + KEEP_ALIVE_S

    def hear(self, of: "LimitedProtocol") -> None:
        """Its request is complete, or the connection has ended."""
        self._silent.pop(of, None)

    def count(self, **closed: bool) -> None:
        """Count a closed connection under each name that is true, for the next line of the log."""
        self._closed.update(name for name, is_so in closed.items() if is_so)

    def close_late(self, now_s: float) -> None:
        """Close the connections that are silent for too long, and log what was closed since the last call.

        Abort and not close: a close waits until the client has read what was sent, which may be never.
        """
        for each in [each for each, until_s in self._silent.items() if until_s < now_s]:
            self.count(late=each.cycle is None)
            self._abort(each)
        if self._closed:
            write = log.info if set(self._closed) == {"late"} else log.warning
            write("connections.closed", **self._closed, open=len(self.connections), limit=self.limit)
            self._closed.clear()

    def close_oldest_silent(self) -> bool:
        """Make room; False: none is silent."""
        oldest = next(iter(self._silent), None)
        if oldest is not None:
            self.count(evicted=True)
            self._abort(oldest)
        return oldest is not None

    def _abort(self, silent: "LimitedProtocol") -> None:
        del self._silent[silent]
        self.connections.discard(silent)
        silent.transport.abort()


class LimitedProtocol(HttpToolsProtocol):
    """One connection, within the limits. Its refusals are JSON, like all of Postroom's.

    Attributes:
        request_bytes: what may follow a head.
    """

    request_bytes = REQUEST_BYTES

    def __init__(
        self,
        config: Config,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._server_connections = server_state
        self._is_stopping = False
        self._is_head = True
        self._room = HEAD_BYTES  # how many bytes the rest of the head, or of the request after it, may have

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_own_user = connected_user.own_user_question(transport.get_extra_info("socket"))
        if not self._server_connections.open(self, self.loop.time()):
            self.app = _health_alone(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server_connections.hear(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        while len(data) > self._room:
            fitting, data = data[: self._room], data[self._room :]
            self._room = 0
            super().data_received(fitting)
            if self.transport.is_closing():
                return
            if not self._room:  # neither the head nor the request ended within its limit
                self._refuse()
                return
        self._room -= len(data)
        super().data_received(data)
        if self._has_too_many_headers and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[connected_user.SCOPE_KEY] = self._is_own_user  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        if self._has_too_many_headers:
            raise ValueError("too many headers")  # the parser stops, and uvicorn calls send_400_response
        self._is_head, self._room = False, self.request_bytes
        super().on_headers_complete()
        if self._is_stopping:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._is_head, self._room, self.headers = True, HEAD_BYTES, []
        if not self.cycle.response_complete:
            self._server_connections.hear(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self._server_connections.listen(self, self.loop.time())
        super().on_response_complete()

    def shutdown(self) -> None:
        """The server stops. uvicorn would close a connection whose first request is still on its way."""
        if self.cycle is not None:
            super().shutdown()
            return
        self._is_stopping = True
        self.loop.call_later(FIRST_REQUEST_S, self._close_unused)

    def _close_unused(self) -> None:
        if self.cycle is None:
            self.transport.close()

    @property
    def _has_too_many_headers(self) -> bool:
        """Of the head, or of what follows a body."""
        return bool(self.headers) and len(self.headers) > MOST_HEADERS

    def _refuse(self) -> None:
        """Close the connection of a request that is too large; where no response is under way, with a reason."""
        self._server_connections.count(too_large=True)
        if self._is_head and (self.cycle is None or self.cycle.response_complete):
            self._answer_and_close(431, _TOO_LARGE)
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        if self._has_too_many_headers:
            self._refuse()
        else:
            self._answer_and_close(400, _INVALID)

    def _answer_and_close(self, status: int, sentence: str) -> None:
        body = json.dumps({"error": sentence}).encode()
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def _health_alone(app: ASGIApp) -> ASGIApp:
    """The app of a connection for which there was no room: how the function is can be asked all the same."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == HEALTH_PATH:
            await app(scope, receive, send)
            return
        sentence = "too many connections, all with requests under way: try again, or raise the limit of open files"
        headers = {"Retry-After": "1", "Connection": "close"}
        await JSONResponse({"error": sentence}, 503, headers)(scope, receive, send)

    return serve
