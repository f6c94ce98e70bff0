"""``GET /api/events/stream``: the events, as they are stored. ``GET /api/events/changes``: only that there are some."""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from pydantic import Field
from starlette.requests import Request

from shared.core.time import clock
from shared.db.queue import events
from shared.rest.http.endpoint import Query, RequestRefused, endpoint
from shared.rest.http.event_stream import EventStream
from shared.rest.http.service import Service
from shared.runtime.open_files import connection_limit

_EVENT_ID = re.compile("[0-9]{1,18}", re.ASCII)


class StreamQuery(Query):
    """The event to continue after, and the names to send."""

    last_event_id: str | None = Field(
        default=None, description="like the header Last-Event-ID, which wins if both are sent"
    )
    types: str | None = Field(
        default=None, max_length=2000, description="only events of these names, separated by commas"
    )


async def _greeted(hello: Mapping[str, Any], reading: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield f"event: connected\ndata: {json.dumps(hello)}\n\n".encode()
    async with aclosing(reading):
        async for piece in reading:
            yield piece


@endpoint("GET", "/api/events/stream", {503: "too many readers are connected"})
async def stream(service: Service, *, query: StreamQuery, request: Request) -> EventStream:
    """Stream the events. With ``Last-Event-ID`` the stream continues without a gap; without it, it begins now."""
    sent = request.headers.get("last-event-id") or query.last_event_id
    if sent is not None and not _EVENT_ID.fullmatch(sent):
        raise RequestRefused(400, "Last-Event-ID must be the id of an event")
    _check_room(service)
    latest = events.latest_id(service.reader)
    last = latest if sent is None else min(int(sent), latest)  # an id beyond all is of another database
    names = frozenset(query.types.split(",")) if query.types else None
    hello = {"type": "connected", "timestamp": clock.now_ms()}
    return EventStream(_greeted(hello, service.feed.read(last, names)))


@endpoint("GET", "/api/events/changes", {503: "too many readers are connected"})
async def changes(service: Service) -> EventStream:
    """Stream that something has changed, once a second at most, for a page that then asks again."""
    _check_room(service)
    return EventStream(_greeted({}, service.changes.read()))


def _check_room(service: Service) -> None:
    """The others ask, and write."""
    if service.feed.readers + service.changes.readers >= (most := connection_limit() // 2):
        raise RequestRefused(503, f"{most} readers are connected already: close some, or try again later")


ENDPOINTS = (stream, changes)
