"""Heartbeats: TinyAGI's repeated question to an agent. Here it is a schedule on the channel ``heartbeat``."""

from typing import ClassVar, Literal, NotRequired

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.time import clock
from shared.db.queue.messages import NewMessage
from shared.db.queue.schedules import schedule_runs
from shared.db.queue.schedules.series import Plan
from shared.db.queue.schedules.settings import ScheduleSettings
from shared.queue import series
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import address
from shared.roster.agents_and_teams import known_agent

CHANNEL = series.HEARTBEAT
_SENDER = "System"
_QUESTION = "Is there something that you should do now? If there is, do it; if not, answer in a few words."
_SETTINGS = ScheduleSettings(wake="news")  # one that has nothing to look at costs nothing
_HOUR_S, _DAY_S = 3600, 86_400
# The intervals that five fields of cron can say, in seconds, shortest first.
_CRON = {
    60: "* * * * *",
    **{60 * minutes: f"*/{minutes} * * * *" for minutes in (2, 3, 4, 5, 6, 10, 12, 15, 20, 30)},
    _HOUR_S: "0 * * * *",
    **{_HOUR_S * hours: f"0 */{hours} * * *" for hours in (2, 3, 4, 6, 8, 12)},
    _DAY_S: "0 0 * * *",
}
_INTERVAL_S = {expression: interval_s for interval_s, expression in _CRON.items()}


class AgentHeartbeat(TypedDict):
    """The question; whether it is asked; and how often, in seconds, unless its schedule has other instants."""

    content: str
    path: Literal[""]
    enabled: bool
    interval: NotRequired[int]


class SavedHeartbeat(AgentHeartbeat):
    """The heartbeat after the change."""

    ok: Literal[True]


class HeartbeatChange(Body):
    """Fields that are left out stay as they are; of a new heartbeat, the interval is an hour."""

    sentences: ClassVar = {"interval": f"interval: a number of seconds, from 1 to {_DAY_S} (a day)"}

    content: str | None = Field(default=None, max_length=100_000, description="the question; empty: the usual one")
    enabled: bool | None = None
    interval: int | None = Field(
        default=None, ge=1, le=_DAY_S, description="seconds; the next longer interval that a cron expression can say"
    )


class HeartbeatStatus(TypedDict):
    """*running*: an agent has a heartbeat; *interval*: the shortest, in seconds; *lastSent*: by agent, in ms UTC."""

    running: bool
    interval: int
    lastSent: dict[str, int]


def status(conn: apsw.Connection) -> HeartbeatStatus:
    """The heartbeats of all agents."""
    plans = [plan for plan in _plans(conn) if plan.status != "paused"]
    sent = {plan.agent or "": schedule_runs.last_start(conn, plan.series_id) for plan in plans}
    return {
        "running": bool(plans),
        "interval": min((_INTERVAL_S.get(plan.recurrence or "", 0) for plan in plans), default=0),
        "lastSent": {agent: at_ms for agent, at_ms in sent.items() if at_ms is not None},
    }


@endpoint("GET", "/api/agents/{id}/heartbeat", {404: "there is no such agent"})
async def get_heartbeat(service: Service, *, id: str) -> AgentHeartbeat:
    """Read the agent's heartbeat."""
    known_agent(service.reader, id)
    return _shown(find(service.reader, id))


@endpoint("PUT", "/api/agents/{id}/heartbeat", {404: "there is no such agent"})
async def put_heartbeat(service: Service, *, id: str, body: HeartbeatChange) -> SavedHeartbeat:
    """Change the agent's heartbeat. It is a schedule, which ``/api/schedules`` lists as well."""

    def work(conn: apsw.Connection) -> Plan | None:
        zone = known_agent(conn, id).timezone
        now_ms = clock.now_ms()
        plan = find(conn, id)
        if plan is None and not (body.enabled or body.content):
            return None
        plan = make(conn, id, body, zone, now_ms=now_ms) if plan is None else _change(conn, plan, body, now_ms=now_ms)
        return _switch(conn, plan, is_on=body.enabled, now_ms=now_ms)

    return {"ok": True, **_shown(await service.change(work, "dispatch"))}


def make(conn: apsw.Connection, agent: str, body: HeartbeatChange, zone: str, *, now_ms: int) -> Plan:
    """A new heartbeat, which is off until it is switched on."""
    new = address(
        conn,
        NewMessage(kind="task", message=body.content or _QUESTION),
        agent_id=agent,
        channel=CHANNEL,
        sender=_SENDER,
        sender_id=None,
        now_ms=now_ms,
    )
    when = series.When(
        recurrence=_cron(body.interval or _HOUR_S), timezone=zone, label=f"heartbeat of {agent}", settings=_SETTINGS
    )
    plan = series.plan_message(conn, new._replace(id_prefix="task"), when, now_ms=now_ms)
    return plan if body.enabled else series.pause(conn, plan.series_id, now_ms=now_ms)


def _change(conn: apsw.Connection, plan: Plan, body: HeartbeatChange, *, now_ms: int) -> Plan:
    change = series.Change(
        message=None if body.content is None else body.content or _QUESTION,
        recurrence=None if body.interval is None else _cron(body.interval),
    )
    return plan if change == series.Change() else series.update(conn, plan.series_id, change, now_ms=now_ms)


def _switch(conn: apsw.Connection, plan: Plan, *, is_on: bool | None, now_ms: int) -> Plan:
    if is_on is None or is_on == (plan.status != "paused"):
        return plan
    verb = series.resume if is_on else series.pause
    return verb(conn, plan.series_id, now_ms=now_ms)


def _cron(interval_s: int) -> str:
    """The expression of the shortest interval that is not shorter."""
    return next(expression for each_s, expression in _CRON.items() if each_s >= interval_s)


def _plans(conn: apsw.Connection) -> list[Plan]:
    return [plan for plan in series.every(conn) if plan.kind == "message" and plan.channel == CHANNEL]


def find(conn: apsw.Connection, agent: str) -> Plan | None:
    """The agent's heartbeat, or None."""
    return next((plan for plan in _plans(conn) if plan.agent == agent and plan.recurrence), None)


def _shown(plan: Plan | None) -> AgentHeartbeat:
    if plan is None:
        return {"content": "", "path": "", "enabled": False}
    shown: AgentHeartbeat = {"content": plan.message, "path": "", "enabled": plan.status != "paused"}
    if plan.recurrence in _INTERVAL_S:
        shown["interval"] = _INTERVAL_S[plan.recurrence]
    return shown


ENDPOINTS = (get_heartbeat, put_heartbeat)
