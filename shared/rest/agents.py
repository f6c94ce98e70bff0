"""Agents: who there is, what they are told, what they were asked and said."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared import clock, schedule
from shared.agents import registry as providers
from shared.db import agents, views
from shared.rest.common import DONE, Done, Newest
from shared.rest.endpoint import Body, Refused, endpoint
from shared.rest.service import Service
from shared.settings import Settings


class Agent(TypedDict):
    """An agent's settings; ``system_prompt`` is TinyAGI's name for ``instructions``."""

    name: str
    provider: str
    model: str
    working_directory: str
    system_prompt: str
    instructions: str
    config: dict[str, Any]
    concurrency: int
    timezone: str
    default: bool


class Saved(TypedDict):
    """The agent as it is now; whether it is new."""

    ok: Literal[True]
    agent: Agent
    provisioned: bool


class Line(TypedDict):
    """One line of an agent's history."""

    id: int
    agent_id: str
    role: Literal["user", "assistant"]
    channel: str
    sender: str
    message_id: str
    content: str
    created_at: int


class SystemPrompt(TypedDict):
    """The agent's instructions; they stand in the database, so there is no path."""

    content: str
    path: Literal[""]


class Heartbeat(TypedDict):
    """Nothing beats: a heartbeat is a schedule here."""

    content: Literal[""]
    path: Literal[""]
    enabled: Literal[False]


class Heartless(Body):
    """TinyAGI's heartbeat, which must not be on."""

    enabled: Literal[False] = False


def _undefaulted(schema: dict[str, Any]) -> None:
    for each in schema["properties"].values():
        each.pop("default", None)


class AgentChange(Body):
    """What is not named stays, whatever the defaults here say."""

    model_config = ConfigDict(extra="forbid", str_max_length=100_000, json_schema_extra=_undefaulted)

    name: str = Field(default="", min_length=1, max_length=200)
    provider: str = "echo"
    model: str | None = None
    instructions: str = ""
    config: dict[str, Any] = Field(default={})
    concurrency: int = Field(default=1, ge=1, le=1000)
    timezone: str = "UTC"
    working_directory: str | None = Field(default=None, description="only below the agents' folder")
    system_prompt: str | None = Field(default=None, description="the same as instructions")
    prompt_file: str | None = Field(default=None, max_length=0, description="refused: send the text as instructions")
    heartbeat: Heartless | None = Field(default=None, description="refused if enabled: use a schedule")
    default: bool | None = Field(default=None, description="ignored")


class Prompt(Body):
    """The new instructions."""

    content: str = Field(default="", max_length=100_000)


class After(Newest):
    """How many; after a line, the next ones, oldest first."""

    since_id: int = Field(default=0, ge=0, lt=2**63)


def shown(agent: agents.Agent, settings: Settings) -> Agent:
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
        "default": agent.is_default,
    }


def folder_of(agent: agents.Agent, settings: Settings) -> Path:
    """Where the agent works."""
    return settings.agents_dir.absolute() / (agent.folder or agent.id)


def known(conn: apsw.Connection, agent_id: str) -> agents.Agent:
    """The agent.

    Raises:
        Refused: there is none with this id (404).
    """
    agent = agents.get(conn, agent_id)
    if agent is None:
        raise Refused(404, f"agent '{agent_id}' not found")
    return agent


@endpoint("GET", "/api/agents")
async def get_agents(service: Service) -> dict[str, Agent]:
    """All agents, by id."""
    return {agent.id: shown(agent, service.settings) for agent in agents.every(service.reader)}


@endpoint("PUT", "/api/agents/{id}", {400: "the agent can't be so; the sentence says why"})
async def put_agent(service: Service, *, id: str, body: AgentChange) -> Saved:
    """Make an agent, or change what is named of it."""
    change = body.model_dump(exclude_unset=True)
    if body.provider not in providers.NAMES:
        raise Refused(400, f"unknown provider {body.provider!r}; known: {', '.join(sorted(providers.NAMES))}")
    schedule.validate("* * * * *", body.timezone)
    for name in ("default", "prompt_file", "heartbeat"):
        change.pop(name, None)
    _translate(id, change, service.settings)

    def work(conn: apsw.Connection) -> tuple[agents.Agent, bool]:
        before = agents.get(conn, id)
        fresh = agents.Agent(id, id, "echo", None, None, "", {}, 1, service.settings.timezone, False)
        changed = replace(before or fresh, **change)
        providers.get(changed.provider).check(changed.config)
        agents.save(conn, changed, now_ms=clock.now_ms())
        return changed, before is None

    try:
        agent, is_new = await service.change(work)
    except apsw.ConstraintError:
        raise Refused(
            400, "an agent's id is 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit"
        ) from None
    return {"ok": True, "agent": shown(agent, service.settings), "provisioned": is_new}


def _translate(agent_id: str, change: dict[str, Any], settings: Settings) -> None:
    """TinyAGI's names for our columns."""
    prompt = change.pop("system_prompt", None)
    if prompt is not None and change.setdefault("instructions", prompt) != prompt:
        raise Refused(400, "system_prompt and instructions are the same thing: send one of them")
    if change.get("model") == "":
        change["model"] = None
    if given := change.pop("working_directory", None):
        root = settings.agents_dir.absolute()
        folder = Path(root, given)
        if ".." in folder.parts or root not in folder.parents or not str(folder).isprintable():
            raise Refused(400, f"working_directory must be a folder below {root}")
        inside = str(folder.relative_to(root))
        change["folder"] = None if inside == agent_id else inside


@endpoint("DELETE", "/api/agents/{id}", {404: "there is no such agent", 409: "it can't go; the sentence says why"})
async def delete_agent(service: Service, *, id: str) -> Done:
    """Delete an agent that nobody has talked to. One with a history stays: its messages say who had them."""

    def work(conn: apsw.Connection) -> None:
        if known(conn, id).is_default:
            raise Refused(409, f"agent '{id}' is the default: messages that name nobody go to it")
        agents.delete(conn, id)

    await service.change(work)
    return DONE


@endpoint("GET", "/api/agent-messages")
async def get_history(service: Service, *, query: After) -> list[Line]:
    """What all agents were asked and said, newest first."""
    return views.history(service.reader, after=query.since_id, limit=query.limit)


@endpoint("GET", "/api/agents/{id}/messages")
async def get_history_of(service: Service, *, id: str, query: After) -> list[Line]:
    """What one agent was asked and said, newest first; nothing for an agent that does not exist."""
    return views.history(service.reader, agent=id, after=query.since_id, limit=query.limit)


@endpoint("GET", "/api/agents/{id}/system-prompt", {404: "there is no such agent"})
async def get_prompt(service: Service, *, id: str) -> SystemPrompt:
    """The agent's instructions."""
    return {"content": known(service.reader, id).instructions, "path": ""}


@endpoint("PUT", "/api/agents/{id}/system-prompt", {404: "there is no such agent"})
async def put_prompt(service: Service, *, id: str, body: Prompt) -> Done:
    """Change the agent's instructions."""

    def work(conn: apsw.Connection) -> None:
        changed = replace(known(conn, id), instructions=body.content)
        agents.save(conn, changed, now_ms=clock.now_ms())

    await service.change(work)
    return DONE


@endpoint("GET", "/api/agents/{id}/heartbeat", {404: "there is no such agent"})
async def get_heartbeat(service: Service, *, id: str) -> Heartbeat:
    """No agent has one."""
    known(service.reader, id)
    return {"content": "", "path": "", "enabled": False}


ENDPOINTS = (
    *(get_agents, put_agent, delete_agent, get_history, get_history_of),
    *(get_prompt, put_prompt, get_heartbeat),
)
