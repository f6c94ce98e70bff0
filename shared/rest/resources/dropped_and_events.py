"""Dropped messages and events: lists for the operator."""

import apsw
from pydantic import Field
from starlette.requests import Request

from shared.core.errors import NotFound
from shared.db.engine import named_rows
from shared.db.roster import chats
from shared.db.views import history
from shared.db.views.history import DroppedView, EventView
from shared.db.views.why import Of
from shared.db.views.work import Filter
from shared.rest.http.common import FilterQuery, PageQuery
from shared.rest.http.endpoint import Query, endpoint
from shared.rest.http.service import Service


class DroppedQuery(Query):
    """*before*: only rows with a lower id, newest first. *since_id*: only rows with a higher id, oldest first.

    *senderId*: only of this sender, by the platform's id. *chatId*: only in this chat; *platformId*: the same by the
    platform's id, also for a chat that has no number.
    """

    reason: str | None = Field(default=None, max_length=100)
    channel: str | None = Field(default=None, max_length=32)
    senderId: str | None = Field(default=None, max_length=200)
    chatId: int | None = Field(default=None, ge=1)
    platformId: str | None = Field(default=None, max_length=200)
    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)
    since_id: int = Field(default=0, ge=0, lt=named_rows.NEWEST)
    limit: int = Field(default=100, ge=1, le=1000)


@endpoint(
    "GET",
    "/api/dropped",
    {404: "there is no such chat", 503: "too many searches run at once: try again later"},
)
async def get_dropped(service: Service, *, query: DroppedQuery, request: Request) -> list[DroppedView]:
    """List the dropped messages with the reasons, newest first; after ``since_id``, oldest first.

    Those of a sender or of a chat are searched, beside the other requests.
    """
    channel, platform_id = query.channel, query.platformId
    if query.chatId is not None:
        channel, platform_id = place_of(service.reader, query.chatId)

    def work(conn: apsw.Connection) -> list[DroppedView]:
        return history.dropped(
            conn,
            reason=query.reason,
            channel=channel,
            sender_id=query.senderId,
            platform_id=platform_id,
            before=query.before,
            after=query.since_id,
            limit=query.limit,
        )

    if query.senderId is None and platform_id is None:
        return work(service.reader)
    return await service.background_reads.read(work, request.receive)


def place_of(conn: apsw.Connection, chat_id: int) -> tuple[str, str]:
    """The channel of a chat, and the platform's id of it.

    Raises:
        NotFound: there is no such chat.
    """
    chat = chats.get(conn, chat_id)
    if chat is None:
        raise NotFound(f"there is no chat {chat_id}; GET /api/chats lists them")
    return chat.channel, chat.platform_id


def filter_of(conn: apsw.Connection, query: FilterQuery) -> Filter:
    """What a list of messages or answers is asked for.

    Raises:
        NotFound: there is no such chat.
    """
    channel, platform_id = query.channel, None
    if query.chatId is not None:
        channel, platform_id = place_of(conn, query.chatId)
    of = Of(sender_id=query.senderId, channel=channel, platform_id=platform_id)
    return Filter(query.agent, of, query.reason, query.since, query.until, query.before)


@endpoint("GET", "/api/events")
async def get_events(service: Service, *, query: PageQuery) -> list[EventView]:
    """List the events, newest first."""
    return history.events(service.reader, before=query.before, limit=query.limit)


ENDPOINTS = (get_dropped, get_events)
