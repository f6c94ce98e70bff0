"""All endpoints, and the OpenAPI document that describes them."""

from functools import cache
from typing import Any

from shared.rest.desk import calendar, lists, overview
from shared.rest.http.endpoint import Endpoint, endpoint
from shared.rest.http.service import Service
from shared.rest.metrics import scrape
from shared.rest.resources import (
    agents,
    dropped_and_events,
    health,
    mailbox,
    memory,
    messages,
    queue,
    responses,
    roster_file,
    schedules,
    search,
    sessions,
    status,
    stream,
    teams,
    tool_servers,
    tools,
    usage,
    why,
)
from shared.rest.resources.channels import accounts, alerts, changes, chats, destinations, files
from shared.rest.resources.moving import imports
from shared.rest.resources.past import replays as past_replays
from shared.rest.resources.people import approvals, pairings, permissions, users
from shared.rest.resources.replication import replica
from shared.rest.resources.tinyagi import heartbeats, unsupported


@endpoint("GET", "/api/openapi.json")
async def get_document(service: Service) -> dict[str, Any]:
    """Read this OpenAPI document."""
    return _document()


@cache
def _document() -> dict[str, Any]:
    from shared.rest.http import openapi  # late: few ask for the document, and each api would hold 0.8 MB for it

    return openapi.document(ENDPOINTS)


ENDPOINTS: tuple[Endpoint, ...] = (
    *messages.ENDPOINTS,
    *past_replays.ENDPOINTS,
    *queue.ENDPOINTS,
    *responses.ENDPOINTS,
    *agents.ENDPOINTS,
    *heartbeats.ENDPOINTS,
    *teams.ENDPOINTS,
    *roster_file.ENDPOINTS,
    *imports.ENDPOINTS,
    *schedules.ENDPOINTS,
    *accounts.ENDPOINTS,
    *files.ENDPOINTS,
    *replica.ENDPOINTS,
    *changes.ENDPOINTS,
    *chats.ENDPOINTS,
    *users.ENDPOINTS,
    *destinations.ENDPOINTS,
    *approvals.ENDPOINTS,
    *permissions.ENDPOINTS,
    *pairings.ENDPOINTS,
    *memory.ENDPOINTS,
    *sessions.ENDPOINTS,
    *mailbox.ENDPOINTS,
    *tools.ENDPOINTS,
    *tool_servers.ENDPOINTS,
    *usage.ENDPOINTS,
    *dropped_and_events.ENDPOINTS,
    *search.ENDPOINTS,
    *why.ENDPOINTS,
    *health.ENDPOINTS,
    *alerts.ENDPOINTS,
    *overview.ENDPOINTS,
    *scrape.ENDPOINTS,
    *lists.ENDPOINTS,
    *calendar.ENDPOINTS,
    *status.ENDPOINTS,
    *stream.ENDPOINTS,
    *unsupported.ENDPOINTS,
    get_document,
)
