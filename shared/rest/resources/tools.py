"""The tools of agents, for people and their programs: an operator calls one as the agent, outside any turn."""

from typing import Any, Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.errors import NotFound
from shared.core.time import clock
from shared.db.queue import sessions
from shared.db.roster import destinations
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent
from shared.turns.tools import registry
from shared.turns.tools.toolbox import Caller, SessionToolbox

_OPERATOR = "operator"  # in place of a turn's token


class ToolView(TypedDict):
    """A tool: *description* is for a model, *schema* is the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class ToolResult(TypedDict):
    """What the tool answered. With *isError* nothing was done, and *text* says why."""

    ok: Literal[True]
    text: str
    isError: bool


class ToolCallBody(Body):
    """The arguments of the call, and the conversation in which the agent acts."""

    arguments: dict[str, Any] = Field(default={}, description="as the tool's schema says")
    chatId: int | None = Field(
        default=None, ge=1, le=2**63 - 1, description="a chat among the agent's destinations; none: no conversation"
    )
    callId: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="a second call with it does nothing, and answers the same",
    )


@endpoint("GET", "/api/tools")
async def get_tools(service: Service) -> list[ToolView]:
    """List the tools of agents."""
    return [
        {"name": each.name, "description": each.description, "schema": dict(each.schema)} for each in registry.specs()
    ]


@endpoint("POST", "/api/agents/{id}/tools/{name}", {404: "there is no such agent, or it may not send to the chat"})
async def post_tool(service: Service, *, id: str, name: str, body: ToolCallBody) -> ToolResult:
    """Call a tool as the agent, outside any turn: what it says is sent, and what it plans is the agent's."""

    def work(conn: apsw.Connection) -> int:
        known_agent(conn, id)
        if body.chatId is not None and destinations.find(conn, id, chat=body.chatId) is None:
            raise NotFound(
                f"agent {id!r} has no chat {body.chatId} among its destinations; GET /api/destinations lists them"
            )
        return sessions.ensure(conn, id, body.chatId, None, now_ms=clock.now_ms())

    session = await service.change(work)
    tools = SessionToolbox(service, service.settings, Caller(id, session, _OPERATOR))
    answer = await tools.call(name, body.arguments, call_id=body.callId)
    service.announce()
    await service.confirm()
    return {"ok": True, "text": answer.text, "isError": answer.is_error}


ENDPOINTS = (get_tools, post_tool)
