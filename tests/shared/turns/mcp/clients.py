"""The MCP server on a socket of its own, the official client, and tools that note what they were asked."""

import asyncio
import contextlib

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from shared.agents.access import ToolAnswer, ToolSpec
from shared.turns.gateway.server import ProgramServer
from shared.turns.mcp.app import McpApp

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Noted:
    """Tools that note each call, and count how often they are listed; ``refuse`` answers with an error."""

    def __init__(self):
        self.calls = []
        self.listed = 0

    def specs(self):
        self.listed += 1
        return [ToolSpec("say", "Say it.", SCHEMA), ToolSpec("refuse", "Refuse it.", SCHEMA)]

    async def call(self, name, arguments, *, call_id=None):
        self.calls.append((name, dict(arguments), call_id))
        return ToolAnswer(f"{name}: {arguments.get('text')}", is_error=name != "say")


@contextlib.asynccontextmanager
async def served(folder, tools_of):
    """The base URL of a server for programs with the tools mounted; *tools_of*: by token."""
    app = McpApp(tools_of.get)
    server = ProgramServer(folder / "programs")
    server.mount("mcp", app)
    port = await server.start_loopback("loopback")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.close()
        await app.close()


@contextlib.asynccontextmanager
async def connected(url, token, mode, **more):
    """The official client, with *more* settings; *mode*: ``legacy`` with a handshake, ``auto`` without one."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, **more) as client,
    ):
        yield client


def text_of(result):
    """The text of a tool's answer."""
    return "".join(each.text for each in result.content)


def run(work, *, seconds=60):
    """Run *work*, which must end within a minute."""
    return asyncio.run(asyncio.wait_for(work, seconds))
