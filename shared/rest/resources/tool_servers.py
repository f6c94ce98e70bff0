"""Tool servers: programs with tools (MCP) that the operator allows, and the agents that have them."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.errors import NotFound
from shared.core.time import clock
from shared.db.roster import tool_servers as server_rows
from shared.db.roster.tool_servers import ListedServer
from shared.rest.http.common import OK, Ok
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.roster import tool_servers
from shared.roster.agents_and_teams import known_agent


class ToolServerView(TypedDict):
    """A tool server. *tools*: what each is for, by name; no others are called. *agents*: those that have it."""

    name: str
    command: list[str]
    tools: dict[str, str]
    agents: list[str]


class SavedToolServer(TypedDict):
    """The server after the change. *takenFrom*: the agents that had it as it was before."""

    ok: Literal[True]
    server: ToolServerView
    takenFrom: list[str]


class ToolServerBody(Body):
    """*command*: the words that start the server. *tools*: what each of its tools is for, by name."""

    command: list[str] = Field(max_length=tool_servers.MOST_WORDS)
    tools: dict[str, str] = Field(max_length=tool_servers.MOST_TOOLS)


def _view(of: ListedServer) -> ToolServerView:
    return {"name": of.name, "command": list(of.command), "tools": dict(of.tools), "agents": list(of.agents)}


@endpoint("GET", "/api/tool-servers")
async def get_tool_servers(service: Service) -> list[ToolServerView]:
    """List the tool servers that agents may have."""
    return [_view(each) for each in server_rows.every(service.reader)]


@endpoint("PUT", "/api/tool-servers/{name}", {400: "the name, the command or a tool is wrong; the error says which"})
async def put_tool_server(service: Service, *, name: str, body: ToolServerBody) -> SavedToolServer:
    """Put a tool server on the list, or change it. A server that changes is taken from its agents."""

    def work(conn: apsw.Connection) -> SavedToolServer:
        taken = tool_servers.save(conn, name, body.command, body.tools, now_ms=clock.now_ms())
        return {"ok": True, "server": _view(tool_servers.known(conn, name)), "takenFrom": list(taken)}

    return await service.change(work)


@endpoint("DELETE", "/api/tool-servers/{name}", {404: "there is no such server"})
async def delete_tool_server(service: Service, *, name: str) -> Ok:
    """Delete a tool server from the list, and so from its agents."""

    def work(conn: apsw.Connection) -> None:
        if not server_rows.delete(conn, name):
            raise NotFound(f"no tool server {name!r}; GET /api/tool-servers lists them")

    await service.change(work)
    return OK


@endpoint(
    "PUT",
    "/api/agents/{id}/tool-servers/{name}",
    {404: "there is no such agent or server", 409: "the agent's provider starts no servers"},
)
async def put_agent_tool_server(service: Service, *, id: str, name: str) -> Ok:
    """Let the agent have the tool server, from its next turn on."""
    await service.change(lambda conn: tool_servers.give(conn, id, name, now_ms=clock.now_ms()))
    return OK


@endpoint(
    "DELETE",
    "/api/agents/{id}/tool-servers/{name}",
    {404: "there is no such agent, or it does not have the server"},
)
async def delete_agent_tool_server(service: Service, *, id: str, name: str) -> Ok:
    """Take the tool server from the agent, from its next turn on."""

    def work(conn: apsw.Connection) -> None:
        known_agent(conn, id)
        tool_servers.take(conn, id, name)

    await service.change(work)
    return OK


ENDPOINTS = (
    get_tool_servers,
    put_tool_server,
    delete_tool_server,
    put_agent_tool_server,
    delete_agent_tool_server,
)
