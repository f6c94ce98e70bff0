"""All endpoints, and the document that says what they are."""

from functools import cache
from typing import Any

from shared.rest import (
    absent,
    agents,
    approvals,
    chats,
    destinations,
    lists,
    mail,
    messages,
    openapi,
    pairings,
    queue,
    responses,
    rosters,
    schedules,
    search,
    sessions,
    status,
    stream,
    teams,
    users,
)
from shared.rest.endpoint import Endpoint, endpoint
from shared.rest.service import Service


@endpoint("GET", "/api/openapi.json")
async def get_document(service: Service) -> dict[str, Any]:
    """This document."""
    return _document()


@cache
def _document() -> dict[str, Any]:
    return openapi.document(ENDPOINTS)


ENDPOINTS: tuple[Endpoint, ...] = (
    *(*messages.ENDPOINTS, *queue.ENDPOINTS, *responses.ENDPOINTS, *agents.ENDPOINTS, *teams.ENDPOINTS),
    *(
        *rosters.ENDPOINTS,
        *schedules.ENDPOINTS,
        *chats.ENDPOINTS,
        *users.ENDPOINTS,
        *destinations.ENDPOINTS,
        *approvals.ENDPOINTS,
        *pairings.ENDPOINTS,
        *sessions.ENDPOINTS,
        *mail.ENDPOINTS,
        *lists.ENDPOINTS,
        *search.ENDPOINTS,
        *status.ENDPOINTS,
        *stream.ENDPOINTS,
        *absent.ENDPOINTS,
    ),
    get_document,
)
