"""Destinations: the chats and agents that each agent may send to, by the agent's own names."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.errors import NotFound
from shared.core.time import clock
from shared.db.engine import named_rows
from shared.db.roster import destinations
from shared.db.views import access
from shared.db.views.access import DestinationView
from shared.rest.http.common import OK, Ok
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent


class SavedDestination(TypedDict):
    """The destination after the change."""

    ok: Literal[True]
    destination: DestinationView


class DestinationsQuery(Query):
    """*agent*: only its destinations."""

    agent: str | None = Field(default=None, max_length=64)
    limit: int = Field(default=1000, ge=1, le=10_000)


class DestinationBody(Body):
    """*chatId* or *toAgent*: exactly one of the two."""

    chatId: int | None = Field(default=None, ge=1, le=named_rows.NEWEST)
    toAgent: str | None = Field(default=None, max_length=64)


def _destination(conn: apsw.Connection, agent: str, name: str) -> DestinationView:
    found = access.destinations(conn, agent=agent, limit=named_rows.NEWEST)
    for each in found:
        if each["name"] == name:
            return each
    known = ", ".join(each["name"] for each in found) or "none"
    raise NotFound(f"agent {agent!r} has no destination {name!r}; it has: {known}")


@endpoint("GET", "/api/destinations")
async def get_destinations(service: Service, *, query: DestinationsQuery) -> list[DestinationView]:
    """List where agents may send, by agent and name."""
    return access.destinations(service.reader, agent=query.agent, limit=query.limit)


@endpoint(
    "PUT",
    "/api/agents/{id}/destinations/{name}",
    {404: "there is no such agent or chat", 409: "the agent uses this name for another destination"},
)
async def put_destination(service: Service, *, id: str, name: str, body: DestinationBody) -> SavedDestination:
    """Let the agent send to a chat or an agent under this name. An existing destination is renamed."""
    if (body.chatId is None) == (body.toAgent is None):
        raise RequestRefused(400, "send either chatId or toAgent: a destination is a chat or an agent")

    def work(conn: apsw.Connection) -> DestinationView:
        known_agent(conn, id)
        destinations.put(conn, id, name=name, chat=body.chatId, target_agent=body.toAgent, now_ms=clock.now_ms())
        return _destination(conn, id, name)

    return {"ok": True, "destination": await service.change(work)}


@endpoint(
    "DELETE",
    "/api/agents/{id}/destinations/{name}",
    {404: "there is no such agent or destination", 409: "the agent answers in that chat: delete its wiring instead"},
)
async def delete_destination(service: Service, *, id: str, name: str) -> Ok:
    """Delete a destination: the agent may no longer send there."""

    def work(conn: apsw.Connection) -> None:
        known_agent(conn, id)
        _destination(conn, id, name)
        destinations.remove(conn, id, name)

    await service.change(work)
    return OK


ENDPOINTS = (get_destinations, put_destination, delete_destination)
