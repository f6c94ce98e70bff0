"""Schedules: messages that agents get later, once or again and again. A schedule's id is that of its series."""

import contextlib
from datetime import datetime
from typing import ClassVar, Literal, NotRequired
from zoneinfo import ZoneInfo

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core import clock
from shared.core import cron as schedule
from shared.core.errors import NotFound
from shared.db.queue import messages
from shared.db.queue.series import Plan
from shared.queue import series
from shared.rest.http.common import OK, Ok
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import LATEST_MS, ChannelName, Name, address

_CHANNEL = "schedule"
_SENDER = "Scheduler"
_FIXED = ("agentId", "channel", "sender")


class ScheduleView(TypedDict):
    """What is planned; ``cron`` is empty where it runs once, at ``runAt``. ``nextAt`` is the next instant in ms."""

    id: str
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
    runAt: NotRequired[str]


class SavedSchedule(TypedDict):
    """The schedule as it is now."""

    ok: Literal[True]
    schedule: ScheduleView


class NewScheduleBody(Body):
    """``cron`` (five fields, on the wall clock of ``timezone``) or ``runAt`` (ISO 8601; without a zone: in it)."""

    sentences: ClassVar = dict.fromkeys(("agentId", "message"), "agentId and message are required")

    agentId: str = Field(min_length=1, max_length=200)
    message: str = Field(min_length=1)
    cron: str | None = Field(default=None, max_length=200)
    runAt: str | None = Field(default=None, max_length=100)
    label: Name = None
    channel: ChannelName = _CHANNEL
    sender: str = Field(default=_SENDER, min_length=1, max_length=200)
    senderId: Name = Field(default=None, description="whose session it is, and to whom the answer goes")
    enabled: bool = True
    timezone: str | None = Field(default=None, max_length=100)
    misfire: Literal["coalesce", "catch_up"] = "coalesce"


class ScheduleChangeBody(Body):
    """What is not named stays. The agent, the channel and the sender can't change."""

    message: str | None = None
    cron: str | None = Field(default=None, max_length=200)
    runAt: str | None = Field(default=None, max_length=100)
    label: Name = None
    enabled: bool | None = None
    timezone: str | None = Field(default=None, max_length=100)
    misfire: Literal["coalesce", "catch_up"] | None = None
    agentId: str | None = None
    channel: str | None = None
    sender: str | None = None


class SchedulesQuery(Query):
    """Whose."""

    agent: str | None = None


def shown(plan: Plan) -> ScheduleView:
    """The plan as the API shows it."""
    told: ScheduleView = {
        "id": plan.series_id,
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
    }
    if plan.recurrence is None:
        at = datetime.fromtimestamp(plan.scheduled_at / 1000, ZoneInfo("UTC"))
        told["runAt"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return told


def _every(conn: apsw.Connection, label: str | None = None) -> list[Plan]:
    return [plan for plan in series.every(conn, label=label) if plan.kind == "message"]


def _find(conn: apsw.Connection, name: str) -> Plan:
    """The plan with this id, or this label."""
    with contextlib.suppress(NotFound):
        plan = series.get(conn, name)
        if plan.kind == "message":
            return plan
    found = _every(conn, label=name)
    if not found:
        raise RequestRefused(404, f"schedule '{name}' not found")
    return found[0]


def _check_label(conn: apsw.Connection, label: str | None, series_id: str | None = None) -> None:
    if label and any(plan.series_id != series_id for plan in _every(conn, label)):
        raise RequestRefused(400, f"a schedule with the label {label!r} exists already")


def _instant(text: str | None, zone: str, *, now_ms: int) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise RequestRefused(400, f"runAt {text!r} is no ISO 8601 instant, such as 2027-01-31T09:00:00Z") from None
    at_ms = int((at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).timestamp() * 1000)
    if not now_ms < at_ms <= LATEST_MS:
        raise RequestRefused(400, f"runAt {text!r} is not in the future that can be planned")
    return at_ms


@endpoint("GET", "/api/schedules")
async def get_schedules(service: Service, *, query: SchedulesQuery) -> list[ScheduleView]:
    """What is planned, soonest first; what ran once and is over is not here any more."""
    return [shown(plan) for plan in _every(service.reader) if query.agent in (None, "", plan.agent)]


@endpoint("POST", "/api/schedules", {400: "it could never run; the sentence says why", 404: "there is no such agent"})
async def post_schedule(service: Service, *, body: NewScheduleBody) -> SavedSchedule:
    """Plan a message for an agent."""
    plan = await service.change(lambda conn: _plan(conn, body, service, now_ms=clock.now_ms()), "dispatch")
    return {"ok": True, "schedule": shown(plan)}


def _plan(conn: apsw.Connection, body: NewScheduleBody, service: Service, *, now_ms: int) -> Plan:
    if bool(body.cron) == bool(body.runAt):
        raise RequestRefused(400, "either cron or runAt is required")
    zone = body.timezone or service.settings.timezone
    schedule.validate("* * * * *", zone)
    _check_label(conn, body.label)
    when = series.When(
        due_ms=_instant(body.runAt or None, zone, now_ms=now_ms),
        recurrence=body.cron or None,
        timezone=zone,
        misfire=body.misfire,
        label=body.label,
    )
    new = address(
        conn,
        messages.NewMessage(kind="task", message=body.message),
        agent_id=body.agentId,
        channel=body.channel,
        sender=body.sender,
        sender_id=body.senderId,
        now_ms=now_ms,
    )
    plan = series.plan_message(conn, new._replace(id_prefix="task"), when, now_ms=now_ms)
    return plan if body.enabled else series.pause(conn, plan.series_id, now_ms=now_ms)


@endpoint(
    "PUT",
    "/api/schedules/{id}",
    {400: "it could never run so; the sentence says why", 404: "nothing is planned so", 409: "its only run has begun"},
)
async def put_schedule(service: Service, *, id: str, body: ScheduleChangeBody) -> SavedSchedule:
    """Change what is named, from the next run that has not begun on; ``enabled`` pauses it, or lets it go on."""
    plan = await service.change(lambda conn: _change(conn, id, body, now_ms=clock.now_ms()), "dispatch")
    return {"ok": True, "schedule": shown(plan)}


def _change(conn: apsw.Connection, name: str, body: ScheduleChangeBody, *, now_ms: int) -> Plan:
    plan = _find(conn, name)
    before = shown(plan)
    for fixed in _FIXED:
        if getattr(body, fixed) not in (None, before[fixed]):  # type: ignore[literal-required]
            raise RequestRefused(400, f"{fixed} can't change: delete the schedule and make another")
    zone = body.timezone or plan.timezone or "UTC"
    schedule.validate("* * * * *", zone)
    _check_label(conn, body.label, plan.series_id)
    change = series.Change(
        message=body.message,
        label=body.label,
        due_ms=_instant(body.runAt or None, zone, now_ms=now_ms),
        recurrence=body.cron or None,
        timezone=body.timezone,
        misfire=body.misfire,
    )
    if change != series.Change():
        plan = series.update(conn, plan.series_id, change, now_ms=now_ms)
    if body.enabled is not None and body.enabled != (plan.status != "paused"):
        verb = series.resume if body.enabled else series.pause
        plan = verb(conn, plan.series_id, now_ms=now_ms)
    return plan


@endpoint("DELETE", "/api/schedules/{id}", {404: "nothing is planned so", 409: "its only run has begun"})
async def delete_schedule(service: Service, *, id: str) -> Ok:
    """End it, by its id or its label: what has begun goes on, and nothing follows."""
    await service.change(lambda conn: series.cancel(conn, _find(conn, id).series_id, now_ms=clock.now_ms()))
    return OK


ENDPOINTS = (get_schedules, post_schedule, put_schedule, delete_schedule)
