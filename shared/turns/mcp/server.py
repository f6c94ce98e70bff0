"""The MCP server by the official SDK: streamable HTTP, without sessions, each answer one JSON document.

It serves the revision 2026-07-28, and by ``older_revisions`` 2025-11-25, 2025-06-18 and those before. It never asks
the client anything: a client whose call we answered may be gone. ``app`` imports this module late.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from shared.agents.access import Toolbox
from shared.turns.mcp.older_revisions import OlderRevisions

TOOLS = "postroom.tools"  # of the scope

_LARGEST_BODY = 1024 * 1024
_CALL_IDS = ("claudecode/toolUseId", "callId")  # of claude and of codex, in the request's _meta
_INSTRUCTIONS = (
    "Tools of Postroom, which carries messages between people, agents and chats. Your final answer goes back to the "
    "person by itself: use send_message only to say something before it, or somewhere else."
)
logging.getLogger("mcp").setLevel(logging.ERROR)  # it logs each request; a person's text must not get there

_Context = ServerRequestContext[Any, Any]


class McpServer:
    """Serves the tools of many turns; each request brings its own."""

    def __init__(self) -> None:
        server = sdk_server(_tools_of_request, _INSTRUCTIONS)
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=["127.0.0.1:*", "localhost:*", "127.0.0.1", "localhost"],
            allowed_origins=["http://127.0.0.1:*", "http://localhost:*"],
        )
        self._older = RequestBodyLimitMiddleware(OlderRevisions(server, security), _LARGEST_BODY)
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, security_settings=security, max_request_body_size=_LARGEST_BODY
        )
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve."""
        ready = asyncio.Event()
        self._running = asyncio.create_task(self._run(ready))
        await ready.wait()

    async def _run(self, ready: asyncio.Event) -> None:
        async with self._manager.run():  # its task group must end in the task that began it
            ready.set()
            await self._stop.wait()

    async def close(self) -> None:
        """Cut off what is being served, and end."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def serve(self, tools: Toolbox, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with these tools."""
        version = Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER)
        is_older = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        app = self._older if is_older else self._manager.handle_request
        await app({**scope, TOOLS: tools}, receive, send)


def _tools_of_request(context: _Context) -> Toolbox:
    assert context.request is not None  # noqa: S101 - every request comes by HTTP
    found: Toolbox = context.request.scope[TOOLS]
    return found


def sdk_server(tools_of: Callable[[_Context], Toolbox], instructions: str) -> Server[Any]:
    """The SDK's server for the tools that *tools_of* finds for each request."""

    async def list_tools(context: _Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        known = tools_of(context).specs()
        return types.ListToolsResult(
            tools=[
                types.Tool(name=each.name, description=each.description, input_schema=dict(each.schema))
                for each in known
            ]
        )

    async def call_tool(context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        answer = await tools_of(context).call(params.name, params.arguments or {}, call_id=_call_id(params))
        text = types.TextContent(type="text", text=answer.text)
        return types.CallToolResult(content=[text], is_error=answer.is_error)

    server: Server[Any] = Server(
        "postroom",
        title="Postroom",
        instructions=instructions,
        get_tool_input_schema=_no_headers,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()  # the SDK's spans for OpenTelemetry: nothing here collects them
    return server


def _no_headers(_: str) -> None:
    """No tool takes an argument as a header too. Unless told so, the SDK lists all tools before each call."""


def _call_id(params: types.CallToolRequestParams) -> str | None:
    """The client's own id of the call; None where it sends none."""
    meta: Any = params.meta or {}
    for name in _CALL_IDS:
        if isinstance(found := meta.get(name), str) and found:
            return found
    return None
