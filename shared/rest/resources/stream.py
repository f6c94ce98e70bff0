"""``GET /api/events/stream``: what happens, as it happens, from the rows."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator

from pydantic import Field
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from shared.core import clock
from shared.db.queue import events
from shared.rest.http.endpoint import Query, Refused, endpoint
from shared.rest.http.service import Service
from shared.runtime.app import gone

_MOST_READERS = 1000
_PATIENCE_S = 30.0  # with a reader that takes nothing
_EVENT_ID = re.compile("[0-9]{1,18}", re.ASCII)
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Choice(Query):
    """Where to begin, and which names to tell."""

    last_event_id: str | None = Field(default=None, description="as the header Last-Event-ID, which goes before it")
    types: str | None = Field(default=None, max_length=2000, description="only these, separated by commas")


class EventStream(StreamingResponse):
    """Sends pieces as they come, each within a time limit: whoever stops reading is let go, and may come back."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], *, patience_s: float = _PATIENCE_S) -> None:
        super().__init__(pieces, headers=_HEADERS, media_type="text/event-stream")
        self._pieces = pieces
        self._patience_s = patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) and not isinstance(error, TimeoutError | OSError):
            raise error

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self._pieces:
                async with asyncio.timeout(self._patience_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._pieces.aclose()


async def _pieces(service: Service, last: int, names: frozenset[str] | None) -> AsyncGenerator[bytes, None]:
    hello = json.dumps({"type": "connected", "timestamp": clock.now_ms()})
    yield f"event: connected\ndata: {hello}\n\n".encode()
    reading = service.feed.read(last, names)
    try:
        async for piece in reading:
            yield piece
    finally:
        await reading.aclose()


@endpoint("GET", "/api/events/stream", {503: "too many read already"})
async def stream(service: Service, *, query: Choice, request: Request) -> EventStream:
    """Server-sent events from the rows: ``Last-Event-ID`` goes on without a gap; without it, from now on."""
    given = request.headers.get("last-event-id") or query.last_event_id
    if given is not None and not _EVENT_ID.fullmatch(given):
        raise Refused(400, "Last-Event-ID must be the id of an event")
    if service.feed.readers >= _MOST_READERS:
        raise Refused(503, f"{_MOST_READERS} read already: close some, or try again later")
    latest = events.latest_id(service.reader)
    last = latest if given is None else min(int(given), latest)  # after a restore, ids begin again further back
    names = frozenset(query.types.split(",")) if query.types else None
    return EventStream(_pieces(service, last, names))


ENDPOINTS = (stream,)
