"""Agents: who there is, what they are told, what they were asked and said."""

from pathlib import Path
from typing import Any, Literal

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.admin import retire
from shared.core import clock
from shared.core.settings import Settings
from shared.db.roster import agents
from shared.db.views import history
from shared.db.views.history import HistoryLine
from shared.rest.http.common import OK, LimitQuery, Ok, Removed
from shared.rest.http.endpoint import Body, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.roster import agents_and_teams
from shared.roster.agents_and_teams import known_agent


class AgentView(TypedDict):
    """An agent's settings; ``system_prompt`` is TinyAGI's name for ``instructions``.

    Without a ``folder`` it works in one of its id; without limits of its own those of the settings hold.
    """

    name: str
    provider: str
    model: str
    working_directory: str
    system_prompt: str
    instructions: str
    config: dict[str, Any]
    concurrency: int
    timezone: str
    folder: str | None
    turn_timeout_ms: int | None
    batch_size: int | None
    default: bool


class SavedAgent(TypedDict):
    """The agent as it is now; whether it is new."""

    ok: Literal[True]
    agent: AgentView
    provisioned: bool


class SystemPrompt(TypedDict):
    """The agent's instructions; they stand in the database, so there is no path."""

    content: str
    path: Literal[""]


class AgentHeartbeat(TypedDict):
    """Nothing beats: a heartbeat is a schedule here."""

    content: Literal[""]
    path: Literal[""]
    enabled: Literal[False]


class HeartbeatBody(Body):
    """TinyAGI's heartbeat, which must not be on."""

    enabled: Literal[False] = False


class AgentBody(agents_and_teams.AgentChange, Body):
    """What is not named stays. A ``PUT`` with the id of an agent that was let go brings it back."""

    model_config = ConfigDict(
        extra="forbid", strict=False, str_max_length=100_000, json_schema_extra=agents_and_teams.without_defaults
    )

    working_directory: str | None = Field(
        default=None, description="the same as folder, and may begin with the path of the agents' folder"
    )
    system_prompt: str | None = Field(default=None, description="the same as instructions")
    prompt_file: str | None = Field(default=None, max_length=0, description="refused: send the text as instructions")
    heartbeat: HeartbeatBody | None = Field(default=None, description="refused if enabled: use a schedule")


class SystemPromptBody(Body):
    """The new instructions."""

    content: str = Field(default="", max_length=100_000)


class HistoryQuery(LimitQuery):
    """How many; after a line, the next ones, oldest first."""

    since_id: int = Field(default=0, ge=0, lt=2**63)


class AgentHistoryQuery(HistoryQuery):
    """Of one channel, or of all."""

    channel: str | None = Field(default=None, max_length=32)


def shown(agent: agents.Agent, settings: Settings) -> AgentView:
    """The agent as the API shows it."""
    return {
        "name": agent.name,
        "provider": agent.provider,
        "model": agent.model or "",
        "working_directory": str(folder_of(agent, settings)),
        "system_prompt": agent.instructions,
        "instructions": agent.instructions,
        "config": agent.config,
        "concurrency": agent.concurrency,
        "timezone": agent.timezone,
        "folder": agent.folder,
        "turn_timeout_ms": agent.turn_timeout_ms,
        "batch_size": agent.batch_size,
        "default": agent.is_default,
    }


def folder_of(agent: agents.Agent, settings: Settings) -> Path:
    """Where the agent works."""
    return settings.agents_dir.absolute() / (agent.folder or agent.id)


@endpoint("GET", "/api/agents")
async def get_agents(service: Service) -> dict[str, AgentView]:
    """All agents, by id."""
    return {agent.id: shown(agent, service.settings) for agent in agents.every(service.reader)}


@endpoint("GET", "/api/agents/{id}", {404: "there is no such agent"})
async def get_agent(service: Service, *, id: str) -> AgentView:
    """One agent."""
    return shown(known_agent(service.reader, id), service.settings)


@endpoint(
    "PUT",
    "/api/agents/{id}",
    {400: "the agent can't be so; the sentence says why", 409: "it is the default, and another is to be that first"},
)
async def put_agent(service: Service, *, id: str, body: AgentBody) -> SavedAgent:
    """Make an agent, or change what is named of it."""
    change = _translated(id, body.model_dump(exclude_unset=True), service.settings)
    zone = service.settings.timezone
    saved = await service.change(
        lambda conn: agents_and_teams.save_agent(conn, id, change, timezone=zone, now_ms=clock.now_ms())
    )
    return {"ok": True, "agent": shown(saved.agent, service.settings), "provisioned": saved.is_new}


def _translated(agent_id: str, change: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """TinyAGI's names in ours."""
    for name in ("prompt_file", "heartbeat"):
        change.pop(name, None)
    prompt = change.pop("system_prompt", None)
    if prompt is not None and change.setdefault("instructions", prompt) != prompt:
        raise RequestRefused(400, "system_prompt and instructions are the same thing: send one of them")
    if change.get("model") == "":
        change["model"] = None
    if given := change.pop("working_directory", None):
        if "folder" in change:
            raise RequestRefused(400, "working_directory and folder are the same thing: send one of them")
        root = settings.agents_dir.absolute()
        folder = Path(root, given)
        if ".." in folder.parts or root not in folder.parents:
            raise RequestRefused(400, f"working_directory must be a folder below {root}")
        change["folder"] = str(folder.relative_to(root))
    return change


@endpoint("DELETE", "/api/agents/{id}", {404: "there is no such agent", 409: "it can't go; the sentence says why"})
async def delete_agent(service: Service, *, id: str) -> Removed:
    """Let an agent go. One that was talked to is retired: hidden and unwired, and its messages say who had them."""
    done = await service.change(lambda conn: retire.delete_agent(conn, id, now_ms=clock.now_ms()), "deliver")
    return {"ok": True, "retired": done == "retired"}


@endpoint("GET", "/api/agent-messages")
async def get_history(service: Service, *, query: HistoryQuery) -> list[HistoryLine]:
    """What all agents were asked and said, newest first."""
    return history.history(service.reader, after=query.since_id, limit=query.limit)


@endpoint("GET", "/api/agents/{id}/messages")
async def get_history_of(service: Service, *, id: str, query: AgentHistoryQuery) -> list[HistoryLine]:
    """What one agent was asked and said, newest first; nothing for an agent that does not exist."""
    return history.history(
        service.reader, agent=id, channel=query.channel or None, after=query.since_id, limit=query.limit
    )


@endpoint("GET", "/api/agents/{id}/system-prompt", {404: "there is no such agent"})
async def get_prompt(service: Service, *, id: str) -> SystemPrompt:
    """The agent's instructions."""
    return {"content": known_agent(service.reader, id).instructions, "path": ""}


@endpoint("PUT", "/api/agents/{id}/system-prompt", {404: "there is no such agent"})
async def put_prompt(service: Service, *, id: str, body: SystemPromptBody) -> Ok:
    """Change the agent's instructions."""

    def work(conn: apsw.Connection) -> None:
        known_agent(conn, id)
        agents_and_teams.save_agent(conn, id, {"instructions": body.content}, now_ms=clock.now_ms())

    await service.change(work)
    return OK


@endpoint("GET", "/api/agents/{id}/heartbeat", {404: "there is no such agent"})
async def get_heartbeat(service: Service, *, id: str) -> AgentHeartbeat:
    """No agent has one."""
    known_agent(service.reader, id)
    return {"content": "", "path": "", "enabled": False}


ENDPOINTS = (
    *(get_agents, get_agent, put_agent, delete_agent, get_history, get_history_of),
    *(get_prompt, put_prompt, get_heartbeat),
)
