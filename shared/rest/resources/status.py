"""Status, log and settings of this system, as far as the rows and the sockets of the functions show them."""

from datetime import UTC, datetime
from typing import Literal, NotRequired

from starlette.requests import Request
from typing_extensions import TypedDict

from shared.channels import registry
from shared.conversation.access import channel_watch
from shared.core.time import clock
from shared.db.engine import named_rows
from shared.db.platforms import channel_outages, channel_pauses, channel_watches
from shared.db.platforms.channel_outages import ChannelOutage, OutageCode
from shared.db.platforms.channel_watches import ChannelWatch, DeafCode
from shared.db.roster import accounts, agents
from shared.db.views import access, history
from shared.db.views.history import EventView
from shared.rest.http.common import LimitQuery
from shared.rest.http.endpoint import endpoint
from shared.rest.http.service import Service
from shared.rest.resources import teams
from shared.rest.resources.agents import AgentView, agent_view
from shared.rest.resources.replication import replica
from shared.rest.resources.replication.views import ReplicaSummary
from shared.rest.resources.tinyagi import heartbeats


class ServerStatus(TypedDict):
    """The port on which the API answers."""

    running: Literal[True]
    port: int


class ChannelPauseView(TypedDict):
    """The platform refuses our token, for this *reason*, since *since*; it is asked again at *nextCheckAt*."""

    reason: str
    since: int
    nextCheckAt: int


class ChannelDeafView(TypedDict):
    """The platform may send us no events since *since*, for this *reason*; *command* fixes it, or the setting there."""

    code: DeafCode
    reason: str
    since: int
    command: str


class ChannelOutageView(TypedDict):
    """The platform can't be reached or can't work since *since*; one call asks again at *nextProbeAt*."""

    code: OutageCode
    reason: str
    since: int
    nextProbeAt: int


class ChannelStatus(TypedDict):
    """*running*: ``deliver`` runs, which sends the channel's responses. *paused*, *outage*: they wait, none is sent.

    *deaf*: messages may not come in. *lookedAt*: when the platform last said what is registered for our bot.
    """

    running: bool
    paused: NotRequired[ChannelPauseView]
    outage: NotRequired[ChannelOutageView]
    deaf: NotRequired[ChannelDeafView]
    lookedAt: NotRequired[int]


class SystemStatus(TypedDict):
    """*uptime*: of the function ``api``, in seconds. *replica*: null where nothing replicates."""

    ok: Literal[True]
    uptime: int
    server: ServerStatus
    channels: dict[str, ChannelStatus]
    heartbeat: heartbeats.HeartbeatStatus
    replica: ReplicaSummary | None


class LogLines(TypedDict):
    """One line for each event, oldest first."""

    lines: list[str]


class WorkspaceSettings(TypedDict):
    """The folder of the agents' folders."""

    path: str
    name: str


class ChannelSettings(TypedDict):
    """*enabled*: the channels with an adapter and a wired chat."""

    enabled: list[str]


class ModelSettings(TypedDict):
    """The provider of the default agent."""

    provider: str


class MonitoringSettings(TypedDict):
    """Always 0: each agent has an interval of its own, see ``/api/agents/{id}/heartbeat``."""

    heartbeat_interval: Literal[0]


class SettingsView(TypedDict):
    """The settings, in TinyAGI's words, without secrets."""

    workspace: WorkspaceSettings
    channels: ChannelSettings
    models: ModelSettings
    agents: dict[str, AgentView]
    teams: dict[str, teams.TeamView]
    monitoring: MonitoringSettings


@endpoint("GET", "/api/status")
async def get_status(service: Service, *, request: Request) -> SystemStatus:
    """Read the status of the system."""
    now_ms = clock.now_ms()
    is_delivering = service.kicker.is_heard("deliver")
    server = request.scope.get("server") or ("", 0)
    return {
        "ok": True,
        "uptime": (now_ms - service.started_at) // 1000,
        "server": {"running": True, "port": server[1] or 0},
        "channels": _channel_statuses(service, is_delivering=is_delivering),
        "heartbeat": heartbeats.status(service.reader),
        "replica": replica.summary(service, service.now_ms()),
    }


def _channel_statuses(service: Service, *, is_delivering: bool) -> dict[str, ChannelStatus]:
    """The wired channels, and those of which there is something to say, by name."""
    found: dict[str, ChannelStatus] = {name: {"running": is_delivering} for name in _wired_channels(service)}
    for name, pause in channel_pauses.every(service.reader).items():
        view: ChannelPauseView = {"reason": pause.reason, "since": pause.paused_at, "nextCheckAt": pause.check_at}
        found.setdefault(name, {"running": is_delivering})["paused"] = view
    for name, outage in channel_outages.every(service.reader).items():
        found.setdefault(name, {"running": is_delivering})["outage"] = _outage(outage)
    for name, watch in channel_watches.every(service.reader).items():
        status = found.setdefault(name, {"running": is_delivering})
        status["lookedAt"] = watch.looked_at
        if watch.code is not None:
            status["deaf"] = _deaf(watch, watch.code)
    return found


def _outage(outage: ChannelOutage) -> ChannelOutageView:
    return {
        "code": outage.code,
        "reason": outage.reason,
        "since": outage.began_at,
        "nextProbeAt": outage.probe_at,
    }


def _deaf(watch: ChannelWatch, code: DeafCode) -> ChannelDeafView:
    mend = channel_watch.mend(watch)
    return {"code": code, "reason": watch.reason or "", "since": watch.since, "command": mend}


def _wired_channels(service: Service) -> list[str]:
    """The channels with an adapter and a wired chat."""
    return [
        name
        for name in accounts.served(service.reader, registry.PLATFORMS)
        if access.has_wired_chat(service.reader, name)
    ]


@endpoint("GET", "/api/logs")
async def get_logs(service: Service, *, query: LimitQuery) -> LogLines:
    """Read the newest events as lines. The functions write their own logs to standard output."""
    found = history.events(service.reader, before=named_rows.NEWEST, limit=query.limit)
    return {"lines": [_line(event) for event in reversed(found)]}


def _line(event: EventView) -> str:
    at = datetime.fromtimestamp(event["createdAt"] / 1000, UTC).isoformat(timespec="milliseconds")
    facts = {"message": event["messageId"], "response": event["responseId"], "agent": event["agent"]}
    facts |= {"channel": event["channel"], "reason": event["data"].get("reason")}
    return " ".join([f"[{at}]", event["type"], *(f"{key}={value}" for key, value in facts.items() if value)])


@endpoint("GET", "/api/settings")
async def get_settings(service: Service) -> SettingsView:
    """Read the settings. They come from the environment; agents, teams and schedules have endpoints of their own."""
    root = service.settings.agents_dir.absolute()
    every = agents.every(service.reader)
    default = next((agent.provider for agent in every if agent.is_default), "")
    return {
        "workspace": {"path": str(root), "name": root.name},
        "channels": {"enabled": _wired_channels(service)},
        "models": {"provider": default},
        "agents": {agent.id: agent_view(agent, service.settings) for agent in every},
        "teams": teams.team_views(service.reader),
        "monitoring": {"heartbeat_interval": 0},
    }


ENDPOINTS = (get_status, get_logs, get_settings)
