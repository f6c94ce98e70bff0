"""Sessions: the context in which each agent continues, and two ways to start over."""

import asyncio
from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.errors import NotFound
from shared.core.time import clock
from shared.db.engine import named_rows
from shared.db.queue import replays, sessions
from shared.db.queue.replays import SessionMessage
from shared.queue import session_reset
from shared.rest.http.common import LimitQuery, PageQuery
from shared.rest.http.endpoint import Query, endpoint
from shared.rest.http.service import Service

_LOOK_AT = 5000  # rows at once: a few milliseconds in which the event loop serves no other request

_UNKNOWN = {404: "there is no such session"}


class SessionsQuery(LimitQuery):
    """*agent*, *chatId* (``id`` in ``/api/chats``), *status*: only these. *before*: only rows with a lower id."""

    agent: str | None = None
    chatId: int | None = Field(default=None, ge=1, le=named_rows.NEWEST)
    status: Literal["active", "closed"] | None = None
    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)


class ReplayQuery(Query):
    """*limit*: how many of the newest messages."""

    limit: int = Field(default=session_reset.MOST_REPLAYED, ge=1, le=session_reset.MOST_REPLAYED)


class SessionView(TypedDict):
    """One agent's continuing context in one chat or thread.

    *privateTo*: the person, by the platform's id, whose private messages it has; null: it is the chat's own.
    *replays*: the session whose messages it was given again. *pending* and *processing*: messages that ask for a turn;
    *context*: messages that only go with the next turn. *lastActive*: when its last turn ended.
    """

    id: int
    sessionId: str
    agent: str
    chatId: int | None
    threadId: str | None
    privateTo: str | None
    status: Literal["active", "closed"]
    replays: str | None
    pending: int
    processing: int
    context: int
    createdAt: int
    lastActive: int
    closedAt: int | None


class SessionReset(TypedDict):
    """*sessionId*: the new session that replaces *closed*."""

    ok: Literal[True]
    sessionId: str
    closed: str


class SessionReplay(TypedDict):
    """*sessionId*: the new session; it was given *messages* messages of the session that it *replays*."""

    ok: Literal[True]
    sessionId: str
    replays: str
    messages: int


@endpoint("GET", "/api/sessions")
async def get_sessions(service: Service, *, query: SessionsQuery) -> list[SessionView]:
    """List the agents' sessions, newest first."""
    found = sessions.page(
        service.reader,
        agent=query.agent,
        chat_id=query.chatId,
        status=query.status,
        before=query.before,
        limit=query.limit,
    )
    return [_view(service.reader, each) for each in found]


@endpoint("GET", "/api/sessions/{id}", _UNKNOWN)
async def get_session(service: Service, *, id: str) -> SessionView:
    """Read one session."""
    return _view(service.reader, _session(service.reader, id))


@endpoint("GET", "/api/sessions/{id}/messages", _UNKNOWN)
async def get_messages(service: Service, *, id: str, query: PageQuery) -> list[SessionMessage]:
    """List the session's messages with their answers, oldest first, for example to compare a replay with the original.

    Completed messages are kept for ``POSTROOM_RETENTION_MS`` (a day). Cancelled, paused and planned ones are left out.
    """
    session = _session(service.reader, id)
    found = await _message_rows(service.reader, session.id, before=query.before, limit=query.limit)
    return replays.story(service.reader, found)


@endpoint("POST", "/api/sessions/{id}/reset", {**_UNKNOWN, 409: "the session is closed already"})
async def reset(service: Service, *, id: str) -> SessionReset:
    """Replace the session by a new one without its history, like ``/clear`` in the chat."""

    def work(conn: apsw.Connection) -> str:
        new = session_reset.reset(conn, _session(conn, id).id, now_ms=clock.now_ms())
        return sessions.known(conn, new).session_id

    return {"ok": True, "sessionId": await service.change(work, "dispatch"), "closed": id}


@endpoint("POST", "/api/sessions/{id}/replay", _UNKNOWN)
async def replay(service: Service, *, id: str, query: ReplayQuery) -> SessionReplay:
    """Replace the active session by a new one that is asked the same messages again.

    The answers go to where the first answers went. Only messages that are still kept are asked, the newest ones.
    """
    message_rows = await _message_rows(service.reader, _session(service.reader, id).id, limit=query.limit)

    def work(conn: apsw.Connection) -> tuple[str, int]:
        new, count = session_reset.replay(conn, _session(conn, id).id, message_rows, now_ms=clock.now_ms())
        return sessions.known(conn, new).session_id, count

    new_id, count = await service.change(work, "dispatch")
    return {"ok": True, "sessionId": new_id, "replays": id, "messages": count}


def _session(conn: apsw.Connection, session_id: str) -> sessions.Session:
    found = sessions.find(conn, session_id)
    if found is None:
        raise NotFound(f"no session {session_id!r}; GET /api/sessions lists them")
    return found


def _view(conn: apsw.Connection, session: sessions.Session) -> SessionView:
    replayed = None if session.replays is None else sessions.known(conn, session.replays).session_id
    return named_rows.view_of(SessionView, session, replays=replayed, **sessions.counts(conn, session)._asdict())


async def _message_rows(
    conn: apsw.Connection, session: int, *, before: int = named_rows.NEWEST, limit: int
) -> list[int]:
    """The rows of the session's messages, newest first. Other requests are served between the steps."""
    found: list[int] = []
    while before and len(found) < limit:
        step, before = replays.find_messages(conn, session, before=before, look_at=_LOOK_AT)
        found += step
        await asyncio.sleep(0)
    return found[:limit]


ENDPOINTS = (get_sessions, get_session, get_messages, reset, replay)
