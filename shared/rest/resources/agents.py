"""Agents: their settings, their instructions, and the history of what they were asked and answered."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, NotRequired

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.agents import registry
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.named_rows import shows_settings_of, view_of
from shared.db.roster import agent_pauses, agents
from shared.db.roster.agent_pauses import AgentPause, PauseCode
from shared.db.views import history
from shared.db.views.history import HistoryLine
from shared.rest.admin import retire
from shared.rest.http import free_programs
from shared.rest.http.common import OK, LimitQuery, Ok, Removed
from shared.rest.http.endpoint import Body, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.roster import agents_and_teams
from shared.roster.agents_and_teams import known_agent
from shared.roster.changes import without_defaults

_CHOOSES = "At its next turn dispatch chooses a provider that is installed and has a key; the agent keeps it."


class AgentPauseView(TypedDict):
    """Why an agent does not work, since when, and until when; both in ms UTC.

    Without ``until`` it ends by an act, or when its provider can work again, of which that is asked at ``nextCheckAt``.
    """

    code: PauseCode
    reason: str
    by: Literal["postroom", "operator"]
    since: int
    until: int | None
    nextCheckAt: int | None


class ResumedAgent(TypedDict):
    """*resumed*: false if the agent was not paused."""

    ok: Literal[True]
    resumed: bool


class PausedAgent(TypedDict):
    """The pause as it is now."""

    ok: Literal[True]
    pause: AgentPauseView


class PauseBody(Body):
    """*reason*: for other operators."""

    reason: str = Field(default="paused by hand", min_length=1, max_length=500)


@shows_settings_of(agents.Agent)
class AgentView(TypedDict):
    """An agent's settings; ``system_prompt`` is TinyAGI's name for ``instructions``.

    Without a ``folder``, the agent works in a folder named by its id. A limit that is null is the one of the settings.
    """

    model: str
    working_directory: str
    system_prompt: str
    chosen_provider: str | None
    default: bool
    paused: NotRequired[AgentPauseView]


class SavedAgent(TypedDict):
    """The agent after the change; *provisioned*: it is new; *note*: what the caller should know about it."""

    ok: Literal[True]
    agent: AgentView
    provisioned: bool
    note: NotRequired[str]


class SystemPrompt(TypedDict):
    """The agent's instructions. They are stored in the database, so the path is empty."""

    content: str
    path: Literal[""]


class HeartbeatBody(Body):
    """TinyAGI's heartbeat, which must be off here: it has an endpoint of its own."""

    enabled: Literal[False] = False
    interval: int | None = Field(default=None, description="has no effect here")


class AgentBody(agents_and_teams.AgentChange, Body):
    """Fields that are left out stay as they are. A ``PUT`` to a retired agent brings it back."""

    model_config = ConfigDict(str_max_length=100_000, json_schema_extra=without_defaults)

    working_directory: str | None = Field(
        default=None, description="the same as folder, and may begin with the path of the agents' folder"
    )
    system_prompt: str | None = Field(default=None, description="the same as instructions")
    prompt_file: str | None = Field(default=None, max_length=0, description="refused: send the text as instructions")
    heartbeat: HeartbeatBody | None = Field(
        default=None, description="refused if enabled: PUT it to /api/agents/{id}/heartbeat"
    )


class SystemPromptBody(Body):
    """The new instructions."""

    content: str = Field(default="", max_length=100_000)


class HistoryQuery(LimitQuery):
    """*limit*: how many lines. *since_id*: only later lines, oldest first."""

    since_id: int = Field(default=0, ge=0, lt=2**63)


class AgentHistoryQuery(HistoryQuery):
    """*channel*: only its lines."""

    channel: str | None = Field(default=None, max_length=32)


def agent_view(agent: agents.Agent, settings: Settings, pause: AgentPause | None = None) -> AgentView:
    """The agent as the API shows it; *pause*: why it does not work now."""
    view: AgentView = {
        **agents.settings(agent),  # type: ignore[typeddict-item]
        "model": agent.model or "",
        "working_directory": str(folder_of(agent, settings)),
        "system_prompt": agent.instructions,
        "chosen_provider": agent.chosen_provider,
        "default": agent.is_default,
    }
    if pause is not None:
        view["paused"] = pause_view(pause)
    return view


def folder_of(agent: agents.Agent, settings: Settings) -> Path:
    """The folder in which the agent works."""
    return settings.agents_dir.absolute() / (agent.folder or agent.id)


@endpoint("GET", "/api/agents")
async def get_agents(service: Service) -> dict[str, AgentView]:
    """List all agents, by id."""
    pauses = agent_pauses.paused(service.reader)
    every = agents.every(service.reader)
    return {agent.id: agent_view(agent, service.settings, pauses.get(agent.id)) for agent in every}


@endpoint("GET", "/api/agents/{id}", {404: "there is no such agent"})
async def get_agent(service: Service, *, id: str) -> AgentView:
    """Read one agent."""
    agent = known_agent(service.reader, id)
    return agent_view(agent, service.settings, agent_pauses.find(service.reader, id))


@endpoint(
    "PUT",
    "/api/agents/{id}",
    {
        400: "a value is not allowed; the error says why",
        409: "refused in the present state; the error says why",
    },
)
async def put_agent(service: Service, *, id: str, body: AgentBody) -> SavedAgent:
    """Create an agent, or change the given fields of one."""
    change = _translated(id, body.model_dump(exclude_unset=True), service.settings)
    refuse_free_programs(service.settings, [change.get("provider", "")])
    zone = service.settings.timezone
    saved = await service.change(
        lambda conn: agents_and_teams.save_agent(conn, id, change, timezone=zone, now_ms=clock.now_ms()), "dispatch"
    )
    answer: SavedAgent = {"ok": True, "agent": agent_view(saved.agent, service.settings), "provisioned": saved.is_new}
    if saved.agent.provider == registry.AUTO and saved.agent.chosen_provider is None:
        answer["note"] = _CHOOSES
    return answer


def refuse_free_programs(settings: Settings, providers: Collection[str]) -> None:
    """Refuse agents whose programs could call this API.

    Raises:
        RequestRefused: no token is set, and this host has no leash.
    """
    if why := free_programs.why_refused(settings, providers):
        raise RequestRefused(409, why)


def _translated(agent_id: str, change: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The change, with TinyAGI's names of fields replaced by Postroom's."""
    for name in ("prompt_file", "heartbeat"):
        change.pop(name, None)
    prompt = change.pop("system_prompt", None)
    if prompt is not None and change.setdefault("instructions", prompt) != prompt:
        raise RequestRefused(400, "system_prompt and instructions are the same field: send only one of them")
    if change.get("model") == "":
        change["model"] = None
    if given := change.pop("working_directory", None):
        if "folder" in change:
            raise RequestRefused(400, "working_directory and folder are the same field: send only one of them")
        root = settings.agents_dir.absolute()
        folder = Path(root, given)
        if ".." in folder.parts or root not in folder.parents:
            raise RequestRefused(400, f"working_directory must be a folder below {root}")
        change["folder"] = str(folder.relative_to(root))
    return change


@endpoint(
    "DELETE", "/api/agents/{id}", {404: "there is no such agent", 409: "it can't be deleted now; the error says why"}
)
async def delete_agent(service: Service, *, id: str) -> Removed:
    """Delete an agent. One that has had messages is retired: hidden and unwired, and its messages keep its name."""
    done = await service.change(lambda conn: retire.delete_agent(conn, id, now_ms=clock.now_ms()), "deliver")
    return {"ok": True, "retired": done == "retired"}


def pause_view(pause: AgentPause) -> AgentPauseView:
    """The pause as the API shows it."""
    return view_of(AgentPauseView, pause, by=pause.paused_by, nextCheckAt=pause.check_at)


@endpoint(
    "POST",
    "/api/agents/{id}/pause",
    {404: "there is no such agent", 409: "an operator paused it already"},
)
async def pause_agent(service: Service, *, id: str, body: PauseBody) -> PausedAgent:
    """Pause an agent until it is resumed. A turn that runs continues; messages wait, and lose no attempt."""

    def work(conn: apsw.Connection) -> AgentPauseView:
        known_agent(conn, id)
        if not agent_pauses.pause_by_hand(conn, id, body.reason, now_ms=clock.now_ms()):
            raise RequestRefused(409, f"agent {id!r} is paused already: resume it first to give another reason")
        return pause_view(agent_pauses.paused(conn)[id])

    return {"ok": True, "pause": await service.change(work, "dispatch")}


@endpoint("POST", "/api/agents/{id}/resume", {404: "there is no such agent"})
async def resume_agent(service: Service, *, id: str) -> ResumedAgent:
    """Resume a paused agent: what waits is answered in order. If it still can't work, it is paused again."""

    def work(conn: apsw.Connection) -> bool:
        known_agent(conn, id)
        return agent_pauses.resume(conn, id, now_ms=clock.now_ms())

    return {"ok": True, "resumed": await service.change(work, "dispatch")}


@endpoint("GET", "/api/agent-messages")
async def get_history(service: Service, *, query: HistoryQuery) -> list[HistoryLine]:
    """List what all agents were asked and answered, newest first."""
    return history.history(service.reader, after=query.since_id, limit=query.limit)


@endpoint("GET", "/api/agents/{id}/messages")
async def get_history_of(service: Service, *, id: str, query: AgentHistoryQuery) -> list[HistoryLine]:
    """List what one agent was asked and answered, newest first. The list is empty if there is no such agent."""
    return history.history(
        service.reader, agent=id, channel=query.channel or None, after=query.since_id, limit=query.limit
    )


@endpoint("GET", "/api/agents/{id}/system-prompt", {404: "there is no such agent"})
async def get_prompt(service: Service, *, id: str) -> SystemPrompt:
    """Read the agent's instructions."""
    return {"content": known_agent(service.reader, id).instructions, "path": ""}


@endpoint("PUT", "/api/agents/{id}/system-prompt", {404: "there is no such agent"})
async def put_prompt(service: Service, *, id: str, body: SystemPromptBody) -> Ok:
    """Change the agent's instructions."""

    def work(conn: apsw.Connection) -> None:
        known_agent(conn, id)
        agents_and_teams.save_agent(conn, id, {"instructions": body.content}, now_ms=clock.now_ms())

    await service.change(work)
    return OK


ENDPOINTS = (
    *(get_agents, get_agent, put_agent, delete_agent, get_history, get_history_of),
    *(get_prompt, put_prompt, pause_agent, resume_agent),
)
