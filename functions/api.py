"""``api``: REST and server-sent events for people, programs and TinyAGI's clients.

``POST /api/message``, ``GET /api/messages/{id}``, ``GET /api/queue/status``, ``GET /api/responses``,
``GET /api/agents``, ``PUT /api/agents/{id}``, ``GET /api/events/stream``. Errors are ``{"error": sentence}``.
"""

import asyncio
import contextlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import apsw
import functions_framework.aio
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from shared import clock, ids, logs, schedule
from shared.agents import registry as providers
from shared.db import agents, chats, events, messages, responses, sessions
from shared.db.connection import open_connection
from shared.db.writer import Writer
from shared.errors import ConfigInvalid
from shared.kick import Kicker, Listener
from shared.serving import Handled, Held, function_app, read_body
from shared.settings import Settings

log = logs.get()

_COMMENT_EVERY_S = 15.0  # keeps proxies from closing a silent stream
_LOOK_EVERY_S = 1.0  # what a lost kick costs a reader
_STREAM_BATCH = 500
_LONGEST_WAIT_S = 60.0
_LATEST_MS = 4_102_444_800_000  # the year 2100
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

Body = TypeVar("Body", bound=BaseModel)


class NewMessage(BaseModel):
    """``POST /api/message``: TinyAGI's body, and beyond it when and how often."""

    model_config = ConfigDict(extra="ignore", str_max_length=200_000)

    message: str = Field(min_length=1)
    agent: str | None = None
    sender: str = Field(default="API", min_length=1, max_length=200)
    senderId: str | None = Field(default=None, max_length=200)
    channel: str = Field(default="api", pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    messageId: str | None = Field(default=None, min_length=1, max_length=200)
    processAfter: int | None = Field(default=None, ge=0, le=_LATEST_MS)
    recurrence: str | None = Field(default=None, max_length=200)
    timezone: str | None = None
    misfire: Literal["coalesce", "catch_up"] = "coalesce"


class AgentChange(BaseModel):
    """``PUT /api/agents/{id}``: what is not named stays, whatever the defaults here say."""

    model_config = ConfigDict(extra="forbid", str_max_length=100_000)

    name: str = Field(default="", min_length=1, max_length=200)
    provider: str = "echo"
    model: str | None = None
    instructions: str = ""
    config: dict[str, Any] = {}
    concurrency: int = Field(default=1, ge=1, le=1000)
    timezone: str = "UTC"


class Api:
    """What the function holds between requests: a connection to read with, the writing thread, who waits for news."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.reader = open_connection(settings.db, readonly=True)
        self.kicker = Kicker(settings.sockets)
        self._listener: Listener | None = None
        self._news = asyncio.Event()
        self.stopping = False

    def listen(self) -> None:
        """Be woken by kicks."""
        self._listener = Listener(self.settings.sockets, "api")
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._kicked)

    def _kicked(self) -> None:
        if self._listener is not None:
            self._listener.drain()
        self.announce()

    def announce(self) -> None:
        """Wake everybody who waits for news."""
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, timeout_s: float) -> None:
        """Return when something may have happened, or after *timeout_s*."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), min(timeout_s, _LOOK_EVERY_S))

    def close(self) -> None:
        self.stopping = True
        self.announce()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
        self.writer.close()
        self.reader.close()
        self.kicker.close()


_held = Held(lambda: Api(Settings.load()), lambda service: service.listen())
lifespan = _held.lifespan

Endpoint = Callable[[Request], Awaitable[Response]]


def _guarded(endpoint: Endpoint) -> Endpoint:
    """Let in whoever has the token. Where none is set: only this machine, and only under its loopback names.

    The names keep other sites' pages in a person's browser from reading or writing here; who has the token is no page
    that a browser was lured to.
    """

    async def guarded(request: Request) -> Response:
        token = _held.get().settings.api_token
        if token is None:
            _check_local(request)
        else:
            given = request.headers.get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, f"Bearer {token.get_secret_value()}".encode()):
                raise HTTPException(401, "send the header 'Authorization: Bearer' with the value of POSTROOM_API_TOKEN")
        return await endpoint(request)

    return guarded


def _check_local(request: Request) -> None:
    """Whose connection it is decides first: a Host header says whatever its sender likes."""
    if request.client is not None and not _is_loopback(request.client.host):
        raise _refused("a call from another machine")
    _check_name(f"//{request.headers.get('host', '')}", "the host")
    origin = request.headers.get("origin")
    if origin and request.method != "GET":
        _check_name(origin, "the origin")


def _is_loopback(address: str) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def _check_name(url: str, what: str) -> None:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if host not in _LOOPBACK:
        raise _refused(f"{what} {host}")


def _refused(what: str) -> HTTPException:
    return HTTPException(403, f"{what} is refused: call 127.0.0.1, or set POSTROOM_API_TOKEN and send it")


async def _parse(request: Request, model: type[Body]) -> Body:
    try:
        return model.model_validate_json(await read_body(request))
    except ValidationError as error:
        problems = error.errors()
        if any(item["loc"] == ("message",) and item["type"] != "string_too_long" for item in problems):
            raise HTTPException(400, "message is required") from None
        told = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'body'}: {item['msg']}" for item in problems)
        raise HTTPException(400, told) from None


async def post_message(request: Request) -> Response:
    """200 ``{ok, messageId}`` once stored; 400 unreadable; 404 no such agent; 409 the messageId is taken."""
    service = _held.get()
    body = await _parse(request, NewMessage)
    zone = service.settings.timezone if body.timezone is None else body.timezone
    if body.recurrence is not None:
        try:
            schedule.validate(body.recurrence, zone)
        except ConfigInvalid as error:
            raise HTTPException(400, str(error)) from None
    message_id = body.messageId or ids.new(body.channel)
    try:
        await service.writer.run(lambda conn: _enqueue(conn, body, message_id, zone, now_ms=clock.now_ms()))
    except apsw.ConstraintError:
        return JSONResponse({"error": "duplicate messageId", "messageId": message_id}, status_code=409)
    service.kicker.kick("dispatch")
    service.announce()
    return JSONResponse({"ok": True, "messageId": message_id})


def _enqueue(conn: apsw.Connection, body: NewMessage, message_id: str, zone: str, *, now_ms: int) -> None:
    agent = agents.get(conn, body.agent) if body.agent else agents.default(conn)
    if agent is None:
        known = ", ".join(each.id for each in agents.every(conn))
        raise HTTPException(
            404, f"no agent {body.agent!r}; known: {known}" if body.agent else "there is no default agent"
        )
    due = body.processAfter
    if body.recurrence is not None and due is None:
        due = schedule.next_occurrence(body.recurrence, zone, after_ms=now_ms)
    chat = chats.ensure(
        conn, body.channel, body.senderId or body.sender, is_group=False, name=body.sender, now_ms=now_ms
    )
    messages.enqueue(
        conn,
        messages.NewMessage(
            message_id=message_id,
            kind="task" if body.recurrence else "chat",
            channel=body.channel,
            chat_id=chat.id,
            platform_id=chat.platform_id,
            sender=body.sender,
            sender_id=body.senderId,
            message=body.message,
            agent=agent.id,
            session_id=sessions.ensure(conn, agent.id, chat.id, None, now_ms=now_ms),
            process_after=due,
            recurrence=body.recurrence,
            timezone=zone if body.recurrence else None,
            misfire=body.misfire,
            scheduled_at=due if body.recurrence else None,
            series_id=ids.new("series") if body.recurrence else None,
        ),
        now_ms=now_ms,
    )


async def get_message(request: Request) -> Response:
    """200 the message and its answers; ``?wait=30``: once it is done, or after so many seconds; 404 unknown."""
    service = _held.get()
    wait_s = _number(request, "wait", default=0, least=0, most=_LONGEST_WAIT_S)
    deadline = asyncio.get_running_loop().time() + wait_s
    while True:
        story = messages.story(service.reader, request.path_params["id"])
        if story is None:
            raise HTTPException(404, f"no message {request.path_params['id']!r}")
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0 or story["status"] not in ("pending", "processing"):
            break
        await service.news(left)
    return JSONResponse({**story, "responses": responses.of_message(service.reader, story["messageId"])})


async def queue_status(_: Request) -> Response:
    """200 ``{incoming, queued, processing, completed, dead, outgoing}``; completed counts all that ever were."""
    service = _held.get()
    found = messages.counts(service.reader)
    return JSONResponse(
        {
            "incoming": found["pending"],
            "queued": 0,
            "processing": found["processing"],
            "completed": found["completed"],
            "dead": found["dead"],
            "outgoing": responses.open_count(service.reader),
        }
    )


async def get_responses(request: Request) -> Response:
    """200 the newest responses, newest first; ``?limit=20``, at most 1000."""
    limit = int(_number(request, "limit", default=20, least=1, most=1000))
    return JSONResponse(responses.recent(_held.get().reader, limit=limit))


def _number(request: Request, name: str, *, default: float, least: float, most: float) -> float:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise HTTPException(400, f"{name} must be a number from {least:g} to {most:g}")
    return value


def _shown(agent: agents.Agent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "provider": agent.provider,
        "model": agent.model,
        "instructions": agent.instructions,
        "config": agent.config,
        "concurrency": agent.concurrency,
        "timezone": agent.timezone,
        "default": agent.is_default,
    }


async def get_agents(_: Request) -> Response:
    """200 a map of id to settings."""
    return JSONResponse({agent.id: _shown(agent) for agent in agents.every(_held.get().reader)})


async def put_agent(request: Request) -> Response:
    """200 ``{ok, agent}``: created, or changed where named; 400 unusable."""
    service = _held.get()
    agent_id = request.path_params["id"]
    body = await _parse(request, AgentChange)
    change = body.model_dump(exclude_unset=True)
    if body.provider not in providers.NAMES:
        raise HTTPException(400, f"unknown provider {body.provider!r}; known: {', '.join(sorted(providers.NAMES))}")
    try:
        schedule.validate("* * * * *", body.timezone)
    except ConfigInvalid as error:
        raise HTTPException(400, str(error)) from None

    def work(conn: apsw.Connection) -> agents.Agent:
        known = agents.get(conn, agent_id) or agents.Agent(
            agent_id, agent_id, "echo", None, None, "", {}, 1, service.settings.timezone, is_default=False
        )
        changed = replace(known, **change)
        providers.get(changed.provider).check(changed.config)
        agents.save(conn, changed, now_ms=clock.now_ms())
        return changed

    try:
        agent = await service.writer.run(work)
    except ConfigInvalid as error:
        raise HTTPException(400, str(error)) from None
    except apsw.ConstraintError:
        raise HTTPException(
            400, "an agent's id is 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit"
        ) from None
    return JSONResponse({"ok": True, "agent": _shown(agent)})


async def stream(request: Request) -> Response:
    """Server-sent events from the rows: ``Last-Event-ID`` goes on without a gap; without it, from now on."""
    service = _held.get()
    given = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
    if given is not None and not re.fullmatch("[0-9]{1,18}", given):
        raise HTTPException(400, "Last-Event-ID must be the id of an event")
    latest = events.latest_id(service.reader)
    last = latest if given is None else min(int(given), latest)  # after a restore, ids begin again further back
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(service, last), media_type="text/event-stream", headers=headers)


async def _events(service: Api, last: int) -> AsyncIterator[str]:
    yield f"event: connected\ndata: {json.dumps({'type': 'connected', 'timestamp': clock.now_ms()})}\n\n"
    loop = asyncio.get_running_loop()
    quiet_since = loop.time()
    while not service.stopping:
        batch = events.after(service.reader, last, limit=_STREAM_BATCH)
        if batch:
            last = batch[-1].id
            quiet_since = loop.time()
            yield "".join(map(_event, batch))
        elif loop.time() - quiet_since >= _COMMENT_EVERY_S:
            quiet_since = loop.time()
            yield ": still here\n\n"
        else:
            await service.news(_COMMENT_EVERY_S)


def _event(event: events.Event) -> str:
    facts = {
        "type": event.type,
        "timestamp": event.created_at,
        "messageId": event.message_id,
        "responseId": event.response_id,
        "agent": event.agent,
        "channel": event.channel,
        **event.data,
    }
    shown = {key: value for key, value in facts.items() if value is not None}
    return f"id: {event.id}\nevent: {event.type}\ndata: {json.dumps(shown)}\n\n"


async def index(_: Request) -> Response:
    """What can be asked here."""
    return JSONResponse({"postroom": [f"{','.join(sorted(route.methods or ()))} {route.path}" for route in _routes]})


_routes = [
    Route("/", index, methods=["GET"]),
    Route("/api/message", _guarded(post_message), methods=["POST"]),
    Route("/api/messages/{id}", _guarded(get_message), methods=["GET"]),
    Route("/api/queue/status", _guarded(queue_status), methods=["GET"]),
    Route("/api/responses", _guarded(get_responses), methods=["GET"]),
    Route("/api/agents", _guarded(get_agents), methods=["GET"]),
    Route("/api/agents/{id}", _guarded(put_agent), methods=["PUT"]),
    Route("/api/events/stream", _guarded(stream), methods=["GET"]),
]
_app = function_app("api", _routes)


@functions_framework.aio.http
async def api(_: Request) -> Response:
    """The handler: see the module's docstring."""
    return Handled(_app)
