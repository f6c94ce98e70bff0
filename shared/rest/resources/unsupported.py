"""What TinyAGI has and we have not: the lists of it are empty, which is true; making any of it is refused.

Its web office asks for all of these when it shows its pages.
"""

from typing import Literal

from typing_extensions import TypedDict

from shared.rest.http.endpoint import Endpoint, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent


class TinyagiPairings(TypedDict):
    """Nobody is paired so: TinyAGI's channel clients pair people themselves, and ours by one-time codes."""

    pending: list[str]
    approved: list[str]


class AgentMemory(TypedDict):
    """Agents keep no memory that is known here."""

    index: Literal[""]
    files: list[str]
    memoryDir: Literal[""]


class SkillSearch(TypedDict):
    """No registry is asked."""

    results: list[str]


@endpoint("GET", "/api/tasks")
async def tasks(service: Service) -> list[str]:
    """There are no tasks: a task is a message here, and a repeated one is a schedule."""
    return []


@endpoint("GET", "/api/projects")
async def projects(service: Service) -> list[str]:
    """There are no projects."""
    return []


@endpoint("GET", "/api/custom-providers")
async def custom_providers(service: Service) -> dict[str, str]:
    """There are no custom providers."""
    return {}


@endpoint("GET", "/api/pairing")
async def pairing(service: Service) -> TinyagiPairings:
    """Nobody is paired."""
    return {"pending": [], "approved": []}


@endpoint("GET", "/api/agents/{id}/skills", {404: "there is no such agent"})
async def skills(service: Service, *, id: str) -> list[str]:
    """The agent has no skills that are known here."""
    known_agent(service.reader, id)
    return []


@endpoint("GET", "/api/agents/{id}/skills/registry", {404: "there is no such agent"})
async def skill_registry(service: Service, *, id: str) -> SkillSearch:
    """Nothing is found: no registry is asked."""
    known_agent(service.reader, id)
    return {"results": []}


@endpoint("GET", "/api/agents/{id}/memory", {404: "there is no such agent"})
async def memory(service: Service, *, id: str) -> AgentMemory:
    """The agent has no memory that is known here."""
    known_agent(service.reader, id)
    return {"index": "", "files": [], "memoryDir": ""}


def _refused(method: str, path: str, status: int, sentence: str) -> Endpoint:
    """An endpoint that does nothing but say why."""

    async def refuse(service: Service, **_: str) -> None:
        raise RequestRefused(status, sentence)

    refuse.__doc__ = f"Refused: {sentence}"
    return endpoint(method, path, {status: sentence})(refuse)


_SETTINGS = "settings come from the environment; agents, teams and schedules have endpoints of their own"
_SERVICES = "the functions are started and stopped by whatever runs them, not over the API"
_TASKS = "there are no tasks here: send a message, or make a schedule"
_PROJECTS = "there are no projects here"
_PROVIDERS = "there are no custom providers here: the provider 'command' runs any program"
_SKILLS = "skills can't be installed over the API"
_PAIRING = "people are paired by one-time codes here: POST /api/pairings; who waits for a yes is in /api/approvals"

_REFUSED = (
    ("PUT", "/api/settings", 501, _SETTINGS),
    ("POST", "/api/setup", 501, _SETTINGS),
    ("POST", "/api/services/apply", 501, _SERVICES),
    ("POST", "/api/services/restart", 501, _SERVICES),
    ("POST", "/api/services/channel/{id}/start", 501, _SERVICES),
    ("POST", "/api/services/channel/{id}/stop", 501, _SERVICES),
    ("POST", "/api/services/channel/{id}/restart", 501, _SERVICES),
    ("POST", "/api/tasks", 501, _TASKS),
    ("PUT", "/api/tasks/reorder", 501, _TASKS),
    ("GET", "/api/tasks/{id}", 404, _TASKS),
    ("PUT", "/api/tasks/{id}", 404, _TASKS),
    ("DELETE", "/api/tasks/{id}", 404, _TASKS),
    ("GET", "/api/tasks/{id}/comments", 404, _TASKS),
    ("POST", "/api/tasks/{id}/comments", 404, _TASKS),
    ("DELETE", "/api/comments/{id}", 404, _TASKS),
    ("POST", "/api/projects", 501, _PROJECTS),
    ("GET", "/api/projects/{id}", 404, _PROJECTS),
    ("PUT", "/api/projects/{id}", 404, _PROJECTS),
    ("DELETE", "/api/projects/{id}", 404, _PROJECTS),
    ("PUT", "/api/custom-providers/{id}", 501, _PROVIDERS),
    ("DELETE", "/api/custom-providers/{id}", 404, _PROVIDERS),
    ("POST", "/api/agents/{id}/skills/install", 501, _SKILLS),
    ("PUT", "/api/agents/{id}/heartbeat", 501, "a heartbeat is a schedule here: POST /api/schedules"),
    ("POST", "/api/pairing/approve", 404, _PAIRING),
    ("DELETE", "/api/pairing/pending/{id}", 404, _PAIRING),
    ("DELETE", "/api/pairing/{channel}/{sender}", 404, _PAIRING),
)

ENDPOINTS = (
    *(tasks, projects, custom_providers, pairing, skills, skill_registry, memory),
    *(_refused(*each) for each in _REFUSED),
)
