"""The guard around a function's app: the time limit and the log line of each request, and the end of its stream."""

import asyncio
import time
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.core import logs
from shared.runtime import request_line

QUIET_PATHS = ("/healthz", "/tick")
LOGGED_PATH_LENGTH = 200

log = logs.get()


class RequestGuard:
    """Enforces the time limit, logs each request, and ends event streams.

    If no response has begun after *timeout_ms*, the request is cancelled and answered with 504. The limit never cuts a
    response that has begun.
    """

    def __init__(self, app: ASGIApp, *, name: str, timeout_ms: int) -> None:
        self._app = app
        self._name = name
        self._timeout_ms = timeout_ms
        self._streams: set[_Response] = set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.monotonic()
        response = _Response(send, self._stream_begins)
        line = request_line.begin(scope)
        try:
            await self._run(scope, receive, response)
        finally:
            self._streams.discard(response)
            write = log.debug if scope["path"] in QUIET_PATHS else log.info
            write(
                line.event,
                **line.facts,
                method=scope["method"],
                path=_shown(scope),
                status=response.status,
                ms=round((time.monotonic() - begun) * 1000, 1),
            )
            line.is_written = True

    def end_streams(self) -> None:
        """Finish the event streams, which never end by themselves; their clients reconnect."""
        self._stopping = True
        for response in self._streams:
            response.cut()

    def _stream_begins(self, response: "_Response") -> None:
        self._streams.add(response)
        if self._stopping:
            response.cut()

    async def _run(self, scope: Scope, receive: Receive, response: "_Response") -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000) as response.limit:
                await self._app(scope, receive, response.send)
        except asyncio.CancelledError:
            if not response.is_cut:
                raise
            await response.finish()
        except TimeoutError:
            if response.limit.expired():
                log.warning("request.timeout", path=_shown(scope), timeout_ms=self._timeout_ms)
                sentence = (
                    f"{self._name} did not answer within {self._timeout_ms / 1000:g} s; the request was cancelled"
                )
                await JSONResponse({"error": sentence}, 504)(scope, receive, response.send)
            else:
                await self._respond_to_failure(scope, receive, response)
        except Exception:  # noqa: BLE001 - _respond_to_failure logs it
            await self._respond_to_failure(scope, receive, response)

    async def _respond_to_failure(self, scope: Scope, receive: Receive, response: "_Response") -> None:
        """Handle an exception of the function: respond with 500, or break the connection if a response has begun."""
        log.exception("request.failed", method=scope["method"], path=_shown(scope))
        if response.status == 0:
            sentence = f"{self._name} failed; the reason is in its log"
            await JSONResponse({"error": sentence}, 500)(scope, receive, response.send)


class _Response:
    """Passes one response on and remembers how far it got; ``status`` is 0 until it begins."""

    def __init__(self, send: Send, on_stream: Callable[["_Response"], None]) -> None:
        self._send = send
        self._on_stream = on_stream
        self._task = asyncio.current_task()
        self._is_complete = False
        self.limit = asyncio.timeout(None)
        self.status = 0
        self.is_cut = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.status == 0 and self.limit.expired():
                await asyncio.sleep(0)  # the limit has expired: let its cancellation arrive here
            self.status = message["status"]
            if not self.limit.expired():
                self.limit.reschedule(None)
            await self._send(message)
            if _is_event_stream(message):
                self._on_stream(self)
            return
        if message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    def cut(self) -> None:
        """Cancel the function's side of this response; :meth:`finish` then ends ours."""
        if self._task is not None and not self.is_cut:
            self.is_cut = True
            self._task.cancel()

    async def finish(self) -> None:
        """Send a proper last chunk after a cut."""
        if self._task is not None:
            self._task.uncancel()
        if self.status and not self._is_complete:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


def _shown(scope: Scope) -> str:
    """The path for the log, without the query and shortened."""
    return str(scope["path"])[:LOGGED_PATH_LENGTH]


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
