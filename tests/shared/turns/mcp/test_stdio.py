"""The tools on standard input and output: a call whose client closed its end is answered all the same."""

import asyncio

import mcp_types as types
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage

from shared.agents.access import ToolAnswer, ToolSpec
from shared.turns.mcp import stdio

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
SAID = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "say", "arguments": {}}},
]
CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}


class SlowTool:
    """A tool that ends when it is let go."""

    def __init__(self):
        self.began, self.may_end = asyncio.Event(), asyncio.Event()

    def specs(self):
        return [ToolSpec("say", "", {"type": "object"})]

    async def call(self, name, arguments, *, call_id=None):
        self.began.set()
        await self.may_end.wait()
        return ToolAnswer("said")


async def _converse(more, *, lets_go):
    """The answers, by the id of the request, of a client that closes its end while the call runs."""
    tools = SlowTool()
    to_server, reading = create_context_streams(10)
    writing, from_server = create_context_streams(10)
    serving = asyncio.create_task(stdio.converse(tools, reading, writing))
    for each in SAID:
        await to_server.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(each, by_name=False)))
    await tools.began.wait()
    for each in more:
        await to_server.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(each, by_name=False)))
    await to_server.aclose()
    for _ in range(50):  # the server has seen the end
        await asyncio.sleep(0)
    if lets_go:
        tools.may_end.set()
    await asyncio.wait_for(serving, 10)
    async with from_server:
        return {each.message.id: each.message async for each in from_server}


def test_a_call_that_runs_when_the_input_ends_is_answered():
    answers = asyncio.run(_converse([], lets_go=True))
    assert answers[2].result["content"][0]["text"] == "said"


def test_a_call_that_the_client_cancelled_holds_nothing_up():
    answers = asyncio.run(_converse([CANCELLED], lets_go=False))
    assert "said" not in str(answers.get(2))
