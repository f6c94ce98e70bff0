"""The door of the MCP server: a token names the program, and the program's turn has the tools.

::

    POST, a token whose program is in a turn ──> server.McpServer ──> Toolbox.call
    any other token ──> 401       any other method ──> 405: the server keeps no session and sends no events

The SDK takes a second to import, and 60 MB. It is imported off the event loop, when the first program starts.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from shared.agents.access import Toolbox

if TYPE_CHECKING:
    from shared.turns.mcp.server import McpServer

PATH = "/mcp"

_NO_TURN = "this token belongs to no turn that runs: the turn has ended or was stopped, so its tools are closed"


class McpApp:
    """An ASGI application for ``/mcp``.

    Args:
        find: the tools of the turn that the token's program runs; None: the token is unknown, or no turn runs.
    """

    def __init__(self, find: Callable[[str], Toolbox | None]) -> None:
        self._find = find
        self._loading: asyncio.Task[McpServer] | None = None

    def begin(self) -> None:
        """Begin to import the SDK, beside the event loop. The first request waits for it."""
        if self._loading is None:
            self._loading = asyncio.create_task(_load())

    async def close(self) -> None:
        """End the server; a later request begins a new one."""
        loading, self._loading = self._loading, None
        if loading is not None:
            await asyncio.wait([loading])
            if loading.exception() is None:
                await loading.result().close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tools = self._find(_bearer(scope))
        if tools is None:
            await JSONResponse({"error": _NO_TURN}, 401)(scope, receive, send)
            return
        if (refusal := _refusal(scope)) is not None:
            await refusal(scope, receive, send)
            return
        self.begin()
        assert self._loading is not None  # noqa: S101 - begin has set it
        server = await asyncio.shield(self._loading)
        await server.serve(tools, scope, receive, send)


def _refusal(scope: Scope) -> JSONResponse | None:
    if scope["path"].rstrip("/") != PATH:
        return JSONResponse({"error": f"the tools are at {PATH}"}, 404)
    if scope["method"] != "POST":
        return JSONResponse({"error": "only POST: this server has no sessions and sends no events"}, 405)
    return None


async def _load() -> "McpServer":
    module = await asyncio.to_thread(import_module, "shared.turns.mcp.server")
    server: McpServer = module.McpServer()
    await server.start()
    return server


def _bearer(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if kind.lower() == "bearer" else ""
    return ""
