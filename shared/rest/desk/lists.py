"""The lists of the operator's page: messages and answers by what became of them, each row with its reason."""

from functools import partial
from typing import Literal

import apsw
from pydantic import Field
from starlette.requests import Request

from shared.db.engine import named_rows
from shared.db.queue import messages
from shared.db.views import conversation, work
from shared.db.views.conversation import TalkLine
from shared.db.views.desk import conversations, message_turns, pages, unanswered
from shared.db.views.desk.conversations import Found, TalkPlace
from shared.db.views.desk.message_turns import MessageTurns
from shared.db.views.desk.unanswered import UnansweredRow, What
from shared.db.views.work import AnswerRow, WorkRow
from shared.rest.http.common import FilterQuery, LimitQuery
from shared.rest.http.endpoint import Endpoint, Query, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.dropped_and_events import filter_of, place_of

_BUSY = {503: "too many long reads run at once: try again later"}


class LogQuery(LimitQuery):
    """*before*: only lines before this instant, in ms UTC. *cursor*: of the last line of a page, for the next page.

    *q*: only lines with this text, in any case of ASCII.
    """

    q: str | None = Field(default=None, min_length=2, max_length=200)
    cursor: str | None = Field(default=None, pattern=pages.pattern(conversation.TABLES))
    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)
    limit: int = Field(default=40, ge=1, le=200)


class UnansweredQuery(LimitQuery):
    """*what*: only these; *code*: only what was dropped with this word. *before*: only before this instant, ms UTC.

    *cursor*: of the last row of a page, for the next page.
    """

    what: What | None = None
    cursor: str | None = Field(default=None, pattern=pages.pattern(unanswered.TABLES))
    code: str | None = Field(default=None, max_length=100)
    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)
    limit: int = Field(default=50, ge=1, le=200)


class PlacesQuery(Query):
    """*limit*: how many, of those with the latest activity."""

    limit: int = Field(default=100, ge=1, le=200)


class FindQuery(Query):
    """*q*: a part of the name of a chat or a person, or the platform's id."""

    q: str = Field(min_length=1, max_length=200)
    limit: int = Field(default=20, ge=1, le=100)


def _list_of(state: work.State, what: str) -> Endpoint:
    async def run(service: Service, *, query: FilterQuery, request: Request) -> list[WorkRow]:
        wanted = partial(_read_messages, state=state, query=query, now_ms=service.now_ms())
        return await service.background_reads.read(wanted, request.receive)

    run.__name__ = f"get_{state}"
    run.__doc__ = f"List {what}, newest first, each with the reason why it is in the list."
    return endpoint("GET", f"/api/lists/{state}", {404: "there is no such chat", **_BUSY})(run)


def _read_messages(conn: apsw.Connection, *, state: work.State, query: FilterQuery, now_ms: int) -> list[WorkRow]:
    return work.messages(conn, state, filter_of(conn, query), limit=query.limit, now_ms=now_ms)


def _read_answers(
    conn: apsw.Connection, *, state: Literal["waiting", "dead"], query: FilterQuery, now_ms: int
) -> list[AnswerRow]:
    return work.answers(conn, state, filter_of(conn, query), limit=query.limit, now_ms=now_ms)


def _answers_of(state: Literal["waiting", "dead"], path: str, what: str) -> Endpoint:
    async def run(service: Service, *, query: FilterQuery, request: Request) -> list[AnswerRow]:
        found = partial(_read_answers, state=state, query=query, now_ms=service.now_ms())
        return await service.background_reads.read(found, request.receive)

    run.__name__ = f"get_{path}"
    run.__doc__ = f"List {what}"
    return endpoint("GET", f"/api/lists/{path}", {404: "there is no such chat", **_BUSY})(run)


@endpoint("GET", "/api/chats/{id}/log", {404: "there is no such chat", **_BUSY})
async def get_log(service: Service, *, id: int, query: LogQuery, request: Request) -> list[TalkLine]:
    """Read a conversation as its people saw it, newest first; texts that were held or dropped are not shown."""
    channel, platform_id = place_of(service.reader, id)
    found = partial(
        conversation.read, chat_id=id, words=query.q, channel=channel, platform_id=platform_id, cursor=query.cursor,
        before_ms=query.before, limit=query.limit, now_ms=service.now_ms(),
    )  # fmt: skip
    return await service.background_reads.read(found, request.receive)


@endpoint("GET", "/api/lists/chats", _BUSY)
async def get_places(service: Service, *, query: PlacesQuery, request: Request) -> list[TalkPlace]:
    """List the conversations by what was said last, among the newest 5 000 messages and answers; then the others."""
    found = partial(conversations.latest, limit=query.limit, now_ms=service.now_ms())
    return await service.background_reads.read(found, request.receive)


@endpoint("GET", "/api/lists/unanswered", _BUSY)
async def get_unanswered(service: Service, *, query: UnansweredQuery, request: Request) -> list[UnansweredRow]:
    """List what got no answer and why, newest first: dropped, held for an approval, or ignored; never its text."""
    found = partial(
        unanswered.read, what=query.what, code=query.code, cursor=query.cursor, before_ms=query.before,
        limit=query.limit, now_ms=service.now_ms(),
    )  # fmt: skip
    return await service.background_reads.read(found, request.receive)


@endpoint("GET", "/api/find", _BUSY)
async def get_found(service: Service, *, query: FindQuery, request: Request) -> Found:
    """Find chats and people by a part of the name, or by the platform's id, newest first."""
    found = partial(conversations.find, words=query.q, limit=query.limit)
    return await service.background_reads.read(found, request.receive)


@endpoint("GET", "/api/messages/{id}/turns", {404: "there is no such message", **_BUSY})
async def get_turns(service: Service, *, id: str, request: Request) -> MessageTurns:
    """Read when the turns over a message began, and what they did with their tools, oldest first."""
    row = messages.known(service.reader, id)
    return await service.background_reads.read(lambda conn: message_turns.read(conn, row), request.receive)


ENDPOINTS = (
    get_turns,
    get_places,
    get_unanswered,
    get_found,
    _list_of("waiting", "the messages that wait for a turn, planned ones too"),
    _list_of("running", "the messages that turns are processing"),
    _list_of("dead", "the dead messages"),
    _list_of("done", "the messages that are over, among the newest 50 000 before ``until`` or ``before``"),
    _answers_of(
        "waiting", "sending", "the answers that are not delivered yet, newest first, each with what it waits for."
    ),
    _answers_of("dead", "unsent", "the answers that could not be sent, newest first, each with the reason."),
    get_log,
)
