"""Dropped messages and events: lists for the operator."""

from pydantic import Field

from shared.db.engine import named_rows
from shared.db.views import history
from shared.db.views.history import DroppedView, EventView
from shared.rest.http.common import PageQuery
from shared.rest.http.endpoint import Query, endpoint
from shared.rest.http.service import Service


class DroppedQuery(Query):
    """*before*: only rows with a lower id, newest first. *since_id*: only rows with a higher id, oldest first."""

    reason: str | None = Field(default=None, max_length=100)
    channel: str | None = Field(default=None, max_length=32)
    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)
    since_id: int = Field(default=0, ge=0, lt=named_rows.NEWEST)
    limit: int = Field(default=100, ge=1, le=1000)


@endpoint("GET", "/api/dropped")
async def get_dropped(service: Service, *, query: DroppedQuery) -> list[DroppedView]:
    """List the dropped messages with the reasons, newest first; after ``since_id``, oldest first."""
    return history.dropped(
        service.reader,
        reason=query.reason,
        channel=query.channel,
        before=query.before,
        after=query.since_id,
        limit=query.limit,
    )


@endpoint("GET", "/api/events")
async def get_events(service: Service, *, query: PageQuery) -> list[EventView]:
    """List the events, newest first."""
    return history.events(service.reader, before=query.before, limit=query.limit)


ENDPOINTS = (get_dropped, get_events)
