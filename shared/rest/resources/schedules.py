"""Schedules: messages that agents get later, once or repeatedly, and responses that people get so without an agent.

The id of a schedule is the id of its series. ``POST /api/responses`` makes those of responses.
"""

import contextlib
from datetime import datetime
from typing import Any, ClassVar, Literal, NotRequired
from zoneinfo import ZoneInfo

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.channels import registry
from shared.conversation.access import people
from shared.core.errors import NotFound
from shared.core.row_settings import camel
from shared.core.time import clock, cron
from shared.db.access import users
from shared.db.engine.named_rows import shows_settings_of
from shared.db.queue import messages, sessions
from shared.db.queue.schedules.series import Kind, Plan
from shared.db.queue.schedules.settings import ScheduleSettings
from shared.db.roster import agents, chats, destinations, wirings
from shared.db.roster.chats import Chat
from shared.db.views import why, why_sentences
from shared.db.views.schedules import runs
from shared.db.views.schedules.runs import RunView
from shared.db.views.why_sentences import Reason, Why
from shared.queue import schedules, series
from shared.rest.http.common import OK, LimitQuery, Ok
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import ChannelName, Name, address
from shared.roster.changes import takes_settings_of, without_defaults

_CHANNEL = "schedule"
_SENDER = "Scheduler"
SessionOfSchedule = Literal["chat", "own"]
_FIXED = ("session", "id", "kind", "agentId", "channel", "sender", "chatId", "createdAt")


@shows_settings_of(ScheduleSettings, camel)
class ScheduleView(Reason):
    """A planned message; ``cron`` is empty if it runs once, at ``runAt``. ``nextAt``: the next instant, in ms UTC.

    ``chatId``: the chat that gets the answer; without it, a client fetches the answer. ``kind``: a ``response`` is sent
    there as it is, and its ``agentId`` is empty, or the agent that it is said to be of. ``session``: the runs have that
    of the chat, or one of their own; ``sessionId``: which. ``state``, ``reason``, ``until``: why the next run has not
    begun, as in ``GET /api/why``.
    """

    id: str
    kind: Kind
    label: str
    cron: str
    agentId: str
    message: str
    channel: str
    sender: str
    enabled: bool
    createdAt: int
    timezone: str
    nextAt: int
    session: SessionOfSchedule
    sessionId: str | None
    runAt: NotRequired[str]
    chatId: NotRequired[int]


class SavedSchedule(TypedDict):
    """The schedule after the change."""

    ok: Literal[True]
    schedule: ScheduleView


@takes_settings_of(ScheduleSettings, camel, is_new=True)
class NewScheduleBody(Body):
    """``cron`` (five fields) or ``runAt`` (ISO 8601). Both are in ``timezone``, unless ``runAt`` has an offset."""

    sentences: ClassVar = dict.fromkeys(("agentId", "message"), "agentId and message are required")

    agentId: str = Field(min_length=1, max_length=200)
    message: str = Field(min_length=1)
    cron: str | None = Field(default=None, max_length=200)
    runAt: str | None = Field(default=None, max_length=100)
    label: Name = None
    channel: ChannelName = _CHANNEL
    sender: str = Field(default=_SENDER, min_length=1, max_length=200)
    senderId: Name = Field(
        default=None, description="the person whose session gets the message, and who gets the answer"
    )
    chatId: int | None = Field(default=None, ge=1, description="the chat that gets the answer, in place of a sender")
    userId: int | None = Field(default=None, ge=1, description="the user who gets the answer in the direct chat")
    session: SessionOfSchedule = Field(default="chat", description="own: the runs know each other, and not the chat")
    enabled: bool = True
    timezone: str | None = Field(default=None, max_length=100)


@takes_settings_of(ScheduleSettings, camel)
class ScheduleChangeBody(Body):
    """Fields that are left out stay as they are. The agent, the channel, the sender and the chat can't change.

    A schedule can be sent back as it was read; what follows from the rest (``nextAt``, ``reason``) then has no effect.
    """

    model_config = ConfigDict(json_schema_extra=without_defaults)

    message: str | None = None
    cron: str | None = Field(default=None, max_length=200)
    runAt: str | None = Field(default=None, max_length=100)
    label: Name = None
    enabled: bool | None = None
    timezone: str | None = Field(default=None, max_length=100)
    agentId: str | None = None
    channel: str | None = None
    sender: str | None = None
    id: str | None = None
    kind: str | None = None
    chatId: int | None = None
    createdAt: int | None = None
    nextAt: int | None = None
    session: SessionOfSchedule | None = None
    sessionId: str | None = None
    state: str | None = None
    reason: str | None = None
    until: int | None = None


class SchedulesQuery(Query):
    """*agent*: only the schedules of this agent."""

    agent: str | None = None


def schedule_view(conn: apsw.Connection, plan: Plan, *, now_ms: int) -> ScheduleView:
    """The plan as the API shows it."""
    session = sessions.get(conn, plan.session_id) if plan.session_id else None
    view: Any = {
        **{camel(name): value for name, value in plan.settings._asdict().items()},
        "id": plan.series_id,
        "kind": plan.kind,
        "label": plan.label or plan.series_id,
        "cron": plan.recurrence or "",
        "agentId": plan.agent or "",
        "message": plan.message,
        "channel": plan.channel,
        "sender": plan.sender,
        "enabled": plan.status != "paused",
        "createdAt": plan.created_at,
        "timezone": plan.timezone or "UTC",
        "nextAt": plan.scheduled_at,
        "session": "own" if session is not None and session.series_id is not None else "chat",
        "sessionId": session.session_id if session is not None else None,
        **_why(conn, plan, now_ms).as_fields(),
    }
    if plan.chat_id is not None:
        view["chatId"] = plan.chat_id
    if plan.recurrence is None:
        at = datetime.fromtimestamp(plan.scheduled_at / 1000, ZoneInfo("UTC"))
        view["runAt"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return view  # type: ignore[no-any-return]


def _why(conn: apsw.Connection, plan: Plan, now_ms: int) -> Why:
    """Why the live row has not run, or was not sent."""
    if plan.kind == "message":
        message = why.message(conn, plan.id, now_ms=now_ms)
        return why_sentences.of_message(message, now_ms=now_ms) if message is not None else Why("planned", "")
    response = why.response(conn, plan.id, now_ms=now_ms)
    return why_sentences.of_response(response, now_ms=now_ms) if response is not None else Why("planned", "")


def _plan_named(conn: apsw.Connection, name: str) -> Plan:
    """The plan with this id or, if there is none, with this label."""
    with contextlib.suppress(NotFound):
        return series.get(conn, name)
    found = series.every(conn, label=name)
    if not found:
        raise RequestRefused(404, f"schedule '{name}' not found")
    return found[0]


def _check_label(conn: apsw.Connection, label: str | None, series_id: str | None = None) -> None:
    if label and any(plan.series_id != series_id for plan in series.every(conn, label=label)):
        raise RequestRefused(400, f"a schedule with the label {label!r} exists already")


@endpoint("GET", "/api/schedules")
async def get_schedules(service: Service, *, query: SchedulesQuery) -> list[ScheduleView]:
    """List the schedules, soonest first. A schedule that ran once and has ended is not in the list."""
    conn, now_ms = service.reader, service.now_ms()
    plans = [plan for plan in series.every(conn) if query.agent in (None, "", plan.agent)]
    return [schedule_view(conn, plan, now_ms=now_ms) for plan in plans]


@endpoint("POST", "/api/schedules", {400: "it could never run; the error says why", 404: "there is no such agent"})
async def post_schedule(service: Service, *, body: NewScheduleBody) -> SavedSchedule:
    """Schedule a message for an agent."""
    plan = await service.change(lambda conn: schedule(conn, body, service, now_ms=clock.now_ms()), "dispatch")
    return {"ok": True, "schedule": schedule_view(service.reader, plan, now_ms=service.now_ms())}


def schedule(conn: apsw.Connection, body: NewScheduleBody, service: Service, *, now_ms: int) -> Plan:
    """Make the schedule.

    Raises:
        RequestRefused: there is no such agent, chat or user, or nothing can be sent there.
        ConfigInvalid: it could never run.
    """
    if bool(body.cron) == bool(body.runAt):
        raise RequestRefused(400, "either cron or runAt is required")
    zone = body.timezone or service.settings.timezone
    cron.validate("* * * * *", zone)
    _check_label(conn, body.label)
    when = series.When(
        due_ms=schedules.instant_ms(body.runAt or None, zone, name="runAt", now_ms=now_ms),
        recurrence=body.cron or None,
        timezone=zone,
        label=body.label,
        settings=ScheduleSettings(**schedules.chosen(body)),
    )
    new = _message(conn, body, now_ms=now_ms)
    if body.session == "own":
        new = series.own_session(conn, new, sessions.known(conn, new.session_id), now_ms=now_ms)
    plan = series.plan_message(conn, new._replace(id_prefix="task"), when, now_ms=now_ms)
    return plan if body.enabled else series.pause(conn, plan.series_id, now_ms=now_ms)


def _message(conn: apsw.Connection, body: NewScheduleBody, *, now_ms: int) -> messages.NewMessage:
    """The message with its agent, session and chat: the given chat, the user's direct chat, or that of the sender."""
    new = messages.NewMessage(kind="task", message=body.message)
    if body.chatId is None and body.userId is None:
        return address(
            conn,
            new,
            agent_id=body.agentId,
            channel=body.channel,
            sender=body.sender,
            sender_id=body.senderId,
            now_ms=now_ms,
        )
    if agents.get(conn, body.agentId) is None:
        raise RequestRefused(404, f"no agent {body.agentId!r}; GET /api/agents lists them")
    chat = _chat(conn, body, now_ms=now_ms)
    wired = wirings.get(conn, chat.id, body.agentId)
    is_shared = wired is not None and wired.session_mode == "agent-shared"
    return new._replace(
        channel=chat.channel,
        chat_id=chat.id,
        platform_id=chat.platform_id,
        sender=body.sender,
        agent=body.agentId,
        session_id=sessions.ensure(conn, body.agentId, None if is_shared else chat.id, None, now_ms=now_ms),
    )


def _chat(conn: apsw.Connection, body: NewScheduleBody, *, now_ms: int) -> Chat:
    """The chat that gets the answer; everything there is checked that could keep an answer from arriving.

    Raises:
        RequestRefused: there is no such chat or user (404), or nothing can be sent there (409).
    """
    if sum(given is not None for given in (body.chatId, body.userId, body.senderId)) > 1:
        raise RequestRefused(400, "one chat gets the answer: give only one of chatId, userId and senderId")
    chat_id = body.chatId if body.userId is None else _direct_chat(conn, body.userId, now_ms=now_ms)
    chat = chats.get(conn, chat_id) if chat_id is not None else None
    if chat is None:
        raise RequestRefused(404, f"there is no chat {chat_id}; GET /api/chats lists them")
    if not registry.is_adapted(chat.channel):
        known = ", ".join(sorted(registry.PLATFORMS))
        raise RequestRefused(409, f"answers in chat {chat.id} are not sent: {chat.channel!r} is none of {known}")
    if chat.status != "active":
        raise RequestRefused(
            409, f"chat {chat.id} is inactive: the bot was removed or blocked, so no answer would arrive"
        )
    if destinations.find(conn, body.agentId, chat=chat.id) is None:
        way = "PUT /api/chats/{id}/wirings/{agent}"
        raise RequestRefused(
            409, f"agent {body.agentId} may not send to chat {chat.id}: let it answer there first ({way})"
        )
    return chat


def _direct_chat(conn: apsw.Connection, user_id: int, *, now_ms: int) -> int:
    user = users.get(conn, user_id)
    if user is None:
        raise RequestRefused(404, f"there is no user {user_id}; GET /api/users lists them")
    chat_id = people.direct_chat(conn, user, now_ms=now_ms)
    if chat_id is None:
        raise RequestRefused(
            409, f"user {user_id} can't be written to: the bot was blocked, or the platform has no direct chat"
        )
    return chat_id


@endpoint(
    "PUT",
    "/api/schedules/{id}",
    {400: "it could never run; the error says why", 404: "there is no such schedule", 409: "its only run has begun"},
)
async def put_schedule(service: Service, *, id: str, body: ScheduleChangeBody) -> SavedSchedule:
    """Change the given fields, from the next run that has not begun. ``enabled`` pauses or resumes the schedule."""
    plan = await service.change(lambda conn: _change(conn, id, body, now_ms=clock.now_ms()), "dispatch", "deliver")
    return {"ok": True, "schedule": schedule_view(service.reader, plan, now_ms=service.now_ms())}


def _change(conn: apsw.Connection, name: str, body: ScheduleChangeBody, *, now_ms: int) -> Plan:
    plan = _plan_named(conn, name)
    before = schedule_view(conn, plan, now_ms=now_ms)
    for fixed in _FIXED:
        if getattr(body, fixed) not in (None, before.get(fixed)):
            raise RequestRefused(400, f"{fixed} can't change: delete the schedule and make a new one")
    zone = body.timezone or plan.timezone or "UTC"
    cron.validate("* * * * *", zone)
    _check_label(conn, body.label, plan.series_id)
    change = series.Change(
        message=body.message,
        label=body.label,
        due_ms=schedules.instant_ms(body.runAt or None, zone, name="runAt", now_ms=now_ms),
        recurrence=body.cron or None,
        timezone=body.timezone,
        settings=schedules.chosen(body),
    )
    return schedules.change(conn, plan, change, is_enabled=body.enabled, now_ms=now_ms)


@endpoint("DELETE", "/api/schedules/{id}", {404: "there is no such schedule", 409: "its only run has begun"})
async def delete_schedule(service: Service, *, id: str) -> Ok:
    """Delete a schedule, by its id or its label. A run that has begun continues."""
    await service.change(lambda conn: series.cancel(conn, _plan_named(conn, id).series_id, now_ms=clock.now_ms()))
    return OK


@endpoint("GET", "/api/schedules/{id}/runs", {404: "there is no such schedule"})
async def get_runs(service: Service, *, id: str, query: LimitQuery) -> list[RunView]:
    """List what became of the runs of a schedule and what it missed, newest first; by its id also once it has ended."""
    conn = service.reader
    with contextlib.suppress(RequestRefused):
        id = _plan_named(conn, id).series_id
    found = runs.of_series(conn, id, now_ms=service.now_ms(), limit=query.limit)
    if not found:
        _plan_named(conn, id)
    return found


ENDPOINTS = (get_schedules, post_schedule, put_schedule, delete_schedule, get_runs)
