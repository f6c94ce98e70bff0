"""What stands around a function's app, for each request: its time limit, its log line, and the end of its stream."""

import asyncio
import time
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.core import logs

QUIET_PATHS = ("/healthz", "/tick")
LOGGED_PATH_LENGTH = 200

log = logs.get()


class RequestGuard:
    """Around the whole app: the time limit, the log line, and the end of event streams.

    Time limit: without the beginning of an answer after *timeout_ms* the request is cancelled and answered with 504.
    An answer that has begun is never cut by it.
    """

    def __init__(self, app: ASGIApp, *, name: str, timeout_ms: int) -> None:
        self._app = app
        self._name = name
        self._timeout_ms = timeout_ms
        self._streams: set[_Answer] = set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.monotonic()
        answer = _Answer(send, self._stream_begins)
        try:
            await self._answer(scope, receive, answer)
        finally:
            self._streams.discard(answer)
            write = log.debug if scope["path"] in QUIET_PATHS else log.info
            write(
                "request.done",
                method=scope["method"],
                path=_shown(scope),
                status=answer.status,
                ms=round((time.monotonic() - begun) * 1000, 1),
            )

    def end_streams(self) -> None:
        """Finish the event streams, which never end by themselves; their readers connect again."""
        self._stopping = True
        for answer in self._streams:
            answer.cut()

    def _stream_begins(self, answer: "_Answer") -> None:
        self._streams.add(answer)
        if self._stopping:
            answer.cut()

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000) as answer.limit:
                await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not answer.is_cut:
                raise
            await answer.finish()
        except TimeoutError:
            if answer.limit.expired():
                log.warning("request.timeout", path=_shown(scope), timeout_ms=self._timeout_ms)
                sentence = f"{self._name} did not answer within {self._timeout_ms / 1000:g} s; the request was given up"
                await JSONResponse({"error": sentence}, 504)(scope, receive, answer.send)
            else:
                await self._failed(scope, receive, answer)
        except Exception:  # noqa: BLE001 - the boundary: _failed logs it
            await self._failed(scope, receive, answer)

    async def _failed(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        """An exception that the function let through: 500 if there is still time for it, else the connection breaks."""
        log.exception("request.failed", method=scope["method"], path=_shown(scope))
        if answer.status == 0:
            sentence = f"{self._name} failed; the reason is in its log"
            await JSONResponse({"error": sentence}, 500)(scope, receive, answer.send)


class _Answer:
    """Passes one answer on and remembers how far it got: ``status`` is 0 until it has begun."""

    def __init__(self, send: Send, on_stream: Callable[["_Answer"], None]) -> None:
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
                await asyncio.sleep(0)  # the limit's cancellation is on its way: this is where it arrives
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
        """Cancel the function's side of this answer; :meth:`finish` then ends ours."""
        if self._task is not None and not self.is_cut:
            self.is_cut = True
            self._task.cancel()

    async def finish(self) -> None:
        """A proper last chunk, after a cut."""
        if self._task is not None:
            self._task.uncancel()
        if self.status and not self._is_complete:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


def _shown(scope: Scope) -> str:
    """The path for the log: without the query, and not longer than somebody wants to read."""
    return str(scope["path"])[:LOGGED_PATH_LENGTH]


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
