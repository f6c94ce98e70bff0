"""Features of TinyAGI that Postroom does not have: their lists are empty, and creating anything in them is refused.

TinyAGI's web office requests all of these lists to show its pages.
"""

from typing_extensions import TypedDict

from shared.rest.http.endpoint import Endpoint, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent


class TinyagiPairings(TypedDict):
    """Always empty: Postroom pairs people by one-time codes, see ``/api/pairings``."""

    pending: list[str]
    approved: list[str]


class SkillSearch(TypedDict):
    """Always empty: Postroom has no registry of skills."""

    results: list[str]


@endpoint("GET", "/api/tasks")
async def tasks(service: Service) -> list[str]:
    """Always empty: in Postroom a task is a message, and a repeated one is a schedule."""
    return []


@endpoint("GET", "/api/projects")
async def projects(service: Service) -> list[str]:
    """Always empty: Postroom has no projects."""
    return []


@endpoint("GET", "/api/custom-providers")
async def custom_providers(service: Service) -> dict[str, str]:
    """Always empty: Postroom has no custom providers."""
    return {}


@endpoint("GET", "/api/pairing")
async def pairing(service: Service) -> TinyagiPairings:
    """Always empty: Postroom pairs people by one-time codes, see ``/api/pairings``."""
    return {"pending": [], "approved": []}


@endpoint("GET", "/api/agents/{id}/skills/registry", {404: "there is no such agent"})
async def skill_registry(service: Service, *, id: str) -> SkillSearch:
    """Always empty: Postroom has no registry of skills."""
    known_agent(service.reader, id)
    return {"results": []}


def _refused(method: str, path: str, status: int, sentence: str) -> Endpoint:
    """An endpoint that refuses every request, with the reason."""

    async def refuse(service: Service, **_: str) -> None:
        raise RequestRefused(status, sentence)

    refuse.__doc__ = f"Refused: {sentence}"
    return endpoint(method, path, {status: sentence})(refuse)


_SETTINGS = "settings come from the environment; agents, teams and schedules have endpoints of their own"
_SERVICES = "the process runner starts and stops the functions, not the API"
_TASKS = "Postroom has no tasks: send a message (POST /api/message), or make a schedule (POST /api/schedules)"
_PROJECTS = "Postroom has no projects"
_PROVIDERS = "Postroom has no custom providers: the provider 'command' runs any program"
_SKILLS = "skills can't be installed over the API"
_PAIRING = "Postroom pairs people by one-time codes (POST /api/pairings); pending approvals are in /api/approvals"

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
    ("POST", "/api/pairing/approve", 404, _PAIRING),
    ("DELETE", "/api/pairing/pending/{id}", 404, _PAIRING),
    ("DELETE", "/api/pairing/{channel}/{sender}", 404, _PAIRING),
)

ENDPOINTS = (
    *(tasks, projects, custom_providers, pairing, skill_registry),
    *(_refused(*each) for each in _REFUSED),
)
