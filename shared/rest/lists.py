"""Lists for people who look after it, newest first: ``before`` an id for the next page."""

from typing import Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.db import views
from shared.rest.common import Newest
from shared.rest.endpoint import endpoint
from shared.rest.service import Service


class Page(Newest):
    """How many, of those before a row."""

    before: int = Field(default=views.NEWEST, ge=1, le=views.NEWEST)


class Chat(TypedDict):
    """One conversation place on one platform, and the agents that answer there."""

    id: int
    channel: str
    platformId: str
    name: str | None
    isGroup: bool
    status: Literal["active", "inactive"]
    notBefore: int | None
    createdAt: int
    agents: list[str]


class Dropped(TypedDict):
    """What was refused, and why; never a person's text."""

    id: int
    channel: str
    platformId: str | None
    senderId: str | None
    reason: str
    detail: str
    createdAt: int


class Event(TypedDict):
    """A change of state."""

    id: int
    type: str
    messageId: str | None
    responseId: int | None
    agent: str | None
    channel: str | None
    data: dict[str, Any]
    createdAt: int


@endpoint("GET", "/api/chats")
async def get_chats(service: Service, *, query: Page) -> list[Chat]:
    """The conversation places."""
    return views.chats(service.reader, before=query.before, limit=query.limit)


@endpoint("GET", "/api/dropped")
async def get_dropped(service: Service, *, query: Page) -> list[Dropped]:
    """What was refused."""
    return views.dropped(service.reader, before=query.before, limit=query.limit)


@endpoint("GET", "/api/events")
async def get_events(service: Service, *, query: Page) -> list[Event]:
    """What happened."""
    return views.events(service.reader, before=query.before, limit=query.limit)


ENDPOINTS = (get_chats, get_dropped, get_events)
