"""A copy of the past: what it is, and conversations of it given to another agent."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.errors import NotFound, WrongState
from shared.core.time import clock
from shared.db.engine.named_rows import view_of
from shared.db.engine.past import Past
from shared.db.queue import messages, past_replays, sessions
from shared.db.queue.sessions import Session
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent

_UNKNOWN = {404: "there is no such session, agent or message", 409: "the database is no copy of the past"}


class PastView(TypedDict):
    """The position of the *replica* that this copy is: *txid*, made at *timestamp*; *asked*: what was asked for.

    *epoch*: of the database there. *schema*: its version there. *at*: the instant that every list shows, ms UTC.
    """

    replica: str
    asked: str
    txid: str
    timestamp: str
    at: int
    epoch: str
    schema: int
    sentence: str


class PastStatus(TypedDict):
    """*past*: null if the database lives. *now*: ms UTC by the clock of the rows."""

    past: PastView | None
    now: int


class NewReplayBody(Body):
    """*session*: the one to replay. *agent*: the one to answer."""

    session: str = Field(min_length=1, max_length=100)
    agent: str = Field(min_length=1, max_length=100)


class NewReplay(TypedDict):
    """*sessionId*: the session of the replay; it has no message yet."""

    ok: Literal[True]
    sessionId: str


class GivenMessageBody(Body):
    """*message*: the id of a message of the session that is replayed."""

    message: str = Field(min_length=1, max_length=200)


class GivenMessage(TypedDict):
    """*messageId*: of the copy."""

    ok: Literal[True]
    messageId: str


@endpoint("GET", "/api/past")
async def get_past(service: Service) -> PastStatus:
    """Read of which position of which replica this database is a copy, if it is one, and what the time is there."""
    now = service.now_ms()
    return {"past": None if service.past is None else view_of(PastView, service.past, at=now), "now": now}


@endpoint("POST", "/api/past/replays", _UNKNOWN)
async def post_replay(service: Service, *, body: NewReplayBody) -> NewReplay:
    """Begin to replay a session with an agent, in a fresh session. The session that is replayed stays as it is."""
    _check(service)

    def work(conn: apsw.Connection) -> str:
        original, agent = _session(conn, body.session), known_agent(conn, body.agent).id
        return sessions.known(conn, past_replays.begin(conn, original, agent, now_ms=clock.now_ms())).session_id

    return {"ok": True, "sessionId": await service.change(work)}


@endpoint("POST", "/api/past/replays/{id}/messages", _UNKNOWN)
async def post_replayed_message(service: Service, *, id: str, body: GivenMessageBody) -> GivenMessage:
    """Give the next message of the original session to the replay. Its agent answers as it would answer a person."""
    past = _check(service)

    def work(conn: apsw.Connection) -> str:
        replay = _session(conn, id)
        if replay.id <= past.newest_session:
            raise WrongState(f"session {id} is of the past itself: POST /api/past/replays begins a replay of it")
        row = messages.known(conn, body.message)
        return past_replays.give(conn, replay, row, now_ms=clock.now_ms())

    return {"ok": True, "messageId": await service.change(work, "dispatch")}


def _check(service: Service) -> Past:
    if service.past is None:
        raise WrongState(
            "this database lives: an answer would go to people. Open the past (`emulator run --from-replica`), and "
            "replay there"
        )
    return service.past


def _session(conn: apsw.Connection, session_id: str) -> Session:
    found = sessions.find(conn, session_id)
    if found is None:
        raise NotFound(f"no session {session_id!r}; GET /api/sessions lists them")
    return found


ENDPOINTS = (get_past, post_replay, post_replayed_message)
