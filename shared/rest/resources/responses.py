"""Responses: what agents said, for readers and for clients that fetch and deliver responses themselves."""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import apsw
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from shared.channels import outgoing_files, registry
from shared.channels.base import OutgoingFile
from shared.core import ids, logs
from shared.core.row_settings import camel
from shared.core.time import clock
from shared.db.queue import dead_responses, fetched_responses, polled_channels, responses
from shared.db.queue.schedules.settings import OF_RESPONSES, ScheduleSettings
from shared.db.roster import agents, chats, wirings
from shared.db.views import responses as response_views
from shared.db.views.responses import DeadResponse, RecentResponse, ResponseView
from shared.queue import schedules, series
from shared.queue.schedules import LATEST_MS
from shared.queue.series import When
from shared.rest.http.common import OK, BatchQuery, DeadQuery, Ok
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.channels import files
from shared.rest.resources.channels.files import FileId
from shared.rest.resources.dropped_and_events import filter_of
from shared.rest.resources.messages import CHANNEL_NAME, ChannelOrAccount, Name, Stored
from shared.roster.changes import takes_settings_of

log = logs.get()

_REQUIRED = "channel, sender, and message are required"
_FILES = "files: name ids that POST /api/files gave, at most 20"
MOST_FILES = 20  # of one response
_CHANNEL = re.compile(CHANNEL_NAME)


class RetriedResponses(TypedDict):
    """The ids of the retried responses, oldest first; *next*: the ``after`` of the next call, null after the last."""

    ok: Literal[True]
    retried: list[int]
    next: int | None


@takes_settings_of(ScheduleSettings, camel, OF_RESPONSES, is_new=True)
class NewResponseBody(Body):
    """A response that answers no message."""

    sentences: ClassVar = {**dict.fromkeys(("channel", "sender", "message"), _REQUIRED), "files": _FILES}

    channel: ChannelOrAccount
    sender: str = Field(min_length=1, max_length=200)
    message: str = Field(default="", description="required where there are no files")
    senderId: Name = None
    agent: Name = None
    files: Annotated[list[FileId], BeforeValidator(lambda value: value or []), Field(max_length=MOST_FILES)] = Field(
        default=[], description="ids that POST /api/files gave; the text is their caption"
    )
    deliverAfter: int | None = Field(default=None, ge=0, le=LATEST_MS, description="not before this instant, ms UTC")
    recurrence: str | None = Field(default=None, min_length=1, max_length=200, description="five fields of cron")
    timezone: str | None = Field(default=None, max_length=100)

    @property
    def is_planned(self) -> bool:
        """Whether it is sent later, once or repeatedly."""
        return self.deliverAfter is not None or self.recurrence is not None


class ResponsesQuery(Query):
    """*limit*: how many responses at most."""

    limit: int = Field(default=20, ge=1, le=1000)


class FetchQuery(Query):
    """*channel*: required. *limit*: how many responses at most."""

    channel: str | None = Field(default=None, max_length=32)
    limit: int = Field(default=1000, ge=1, le=1000)


@endpoint("GET", "/api/responses")
async def get_responses(service: Service, *, query: ResponsesQuery) -> list[RecentResponse]:
    """List the newest responses, newest first."""
    return response_views.recent_responses(service.reader, limit=query.limit)


@endpoint("GET", "/api/responses/pending")
async def get_pending(service: Service, *, query: FetchQuery) -> list[ResponseView]:
    """List the channel's responses that a client has to fetch, deliver and acknowledge, oldest first.

    A response stays in the list until it is acknowledged. Responses that Postroom delivers itself are not in it. From
    the first fetch on, a message of the channel that ends without an answer gets a response with an empty text.
    """
    if not query.channel:
        raise RequestRefused(400, "channel query param required")
    await _note_poll(service, query.channel)
    found = response_views.responses_to_fetch(
        service.reader,
        query.channel,
        has_adapter=registry.is_adapted(query.channel),
        now_ms=clock.now_ms(),
        limit=query.limit,
    )
    if found:
        service.unfetched_responses.watch(query.channel)
    return found


async def _note_poll(service: Service, channel: str) -> None:
    """Remember that a client polls the channel; what it fetches does not depend on it."""
    if channel in service.polled_channels or not _CHANNEL.fullmatch(channel):
        return
    try:
        await service.writer.run(lambda conn: polled_channels.add(conn, channel, now_ms=clock.now_ms()), durable=False)
    except apsw.Error:
        log.exception("api.poll_not_noted", channel=channel)
    else:
        service.polled_channels.add(channel)


@endpoint("POST", "/api/responses", {404: "there is no such agent"})
async def post_response(service: Service, *, body: NewResponseBody) -> Stored:
    """Send a text, and files, to a person on a channel, without a message to answer: now, later, or by ``recurrence``.

    The channel's adapter delivers it if it knows the chat. Otherwise it waits until a client fetches it. What is sent
    later is a schedule too: it is listed, changed and deleted as one.
    """
    if not body.message and not body.files:
        raise RequestRefused(400, _REQUIRED)
    if body.files and body.is_planned:
        raise RequestRefused(
            400, "files are kept for a week, so they can't be sent later: leave out deliverAfter and recurrence"
        )
    store = service.settings.files
    named = [await asyncio.to_thread(files.found, store, file_id) for file_id in dict.fromkeys(body.files)]
    message_id = ids.new("proactive")
    zone = body.timezone or service.settings.timezone
    await service.change(lambda conn: _enqueue(conn, body, named, message_id, zone, now_ms=clock.now_ms()), "deliver")
    return {"ok": True, "messageId": message_id}


def _enqueue(
    conn: apsw.Connection,
    body: NewResponseBody,
    named: Sequence[OutgoingFile],
    message_id: str,
    zone: str,
    *,
    now_ms: int,
) -> None:
    if body.agent is not None and agents.get(conn, body.agent) is None:
        raise RequestRefused(404, f"no agent {body.agent!r}")
    place = body.senderId or body.sender
    chat = chats.find(conn, body.channel, place)
    chat_id = chat.id if chat and wirings.of_chat(conn, chat.id) else None
    if chat_id is not None:
        _check_files(body.channel, named)
    new = responses.NewResponse(
        message_id=message_id,
        channel=body.channel,
        chat_id=chat_id,
        platform_id=place,
        sender=body.sender,
        sender_id=body.senderId,
        message=body.message,
        agent=body.agent,
        files=outgoing_files.encode(named) if named else "[]",
    )
    if body.is_planned:
        when = When(body.deliverAfter, body.recurrence, zone, settings=ScheduleSettings(**schedules.chosen(body)))
        series.plan_response(conn, new, when, now_ms=now_ms)
    else:
        responses.enqueue(conn, new, now_ms=now_ms)


def _check_files(channel: str, named: Sequence[OutgoingFile]) -> None:
    """See that the channel takes the files, as far as that is known before."""
    limits = registry.traits(channel).files
    if named and limits is None:
        raise RequestRefused(400, f"files can't be sent to {channel}: leave them out")
    for each in named:
        problem = outgoing_files.too_large(each.size, each.kind, limits) if limits is not None else None
        if problem is not None:
            raise RequestRefused(400, f"files: {each.name} can't be sent to {channel}: {problem}")


@endpoint("POST", "/api/responses/{id}/ack", {404: "there is no such response", 409: "Postroom delivers it itself"})
async def ack(service: Service, *, id: int) -> Ok:
    """Acknowledge a response that the client has delivered. Doing so twice is fine."""

    def work(conn: apsw.Connection) -> str:
        now_ms = clock.now_ms()
        channel = fetched_responses.ack(conn, id, adapters=registry.PLATFORMS, now_ms=now_ms)
        series.advance_responses(conn, now_ms=now_ms)
        return channel

    service.unfetched_responses.watch_again(await service.change(work))
    return OK


@endpoint("GET", "/api/responses/dead", {404: "there is no such chat"})
async def get_dead(service: Service, *, query: DeadQuery) -> list[DeadResponse]:
    """List the dead responses, each with the reason: sending failed, or no client fetched them; newest first."""
    wanted = filter_of(service.reader, query)
    return response_views.dead_responses(service.reader, wanted, limit=query.limit, now_ms=service.now_ms())


@endpoint("POST", "/api/responses/dead/retry")
async def retry_many(service: Service, *, query: BatchQuery) -> RetriedResponses:
    """Retry the oldest dead responses. Their attempts are counted from zero."""

    def work(conn: apsw.Connection) -> list[int]:
        return dead_responses.retry_many(conn, after=query.after, limit=query.limit, now_ms=clock.now_ms())

    retried = await service.change(work, "deliver")
    return {"ok": True, "retried": retried, "next": retried[-1] if len(retried) == query.limit else None}


@endpoint("POST", "/api/responses/{id}/retry", {404: "there is no such response", 409: "it is not dead"})
async def retry(service: Service, *, id: int) -> Ok:
    """Retry a dead response. Its attempts are counted from zero; parts that have arrived are not sent again."""
    await service.change(lambda conn: dead_responses.retry(conn, id, now_ms=clock.now_ms()), "deliver")
    return OK


@endpoint("DELETE", "/api/responses/{id}", {404: "there is no such response", 409: "it is not dead"})
async def delete(service: Service, *, id: int) -> Ok:
    """Delete a dead response."""
    await service.change(lambda conn: dead_responses.delete(conn, id, now_ms=clock.now_ms()))
    return OK


ENDPOINTS = (get_responses, get_pending, get_dead, post_response, ack, retry_many, retry, delete)
