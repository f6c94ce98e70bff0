"""``emulator tools``: a person's own MCP client on standard input and output, through the REST API."""

import asyncio
import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from emulator.base.errors import DoesNotExist
from tests.emulator.cli.commands.conftest import Postroom
from tests.emulator.harness import ROOT
from tests.support import make_chat, wire


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_uses_an_agents_tools_over_standard_input_and_output(postroom: Postroom, mode: str) -> None:
    postroom.run("agents", "set", "helper")
    chat = make_chat(postroom.conn, f"-{len(mode)}", is_group=True)
    wire(postroom.conn, chat, "helper")

    async def work() -> tuple[set[str], str, str]:
        command = ["-m", "emulator", "tools", "helper", "--chat", str(chat), "--url", postroom.url]
        server = StdioServerParameters(command=sys.executable, args=command, cwd=str(ROOT))
        async with Client(stdio_client(server), mode=mode) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            said = await client.call_tool("send_message", {"text": f"hello, {mode}"})
            refused = await client.call_tool("send_message", {"text": "x", "to": "family"})
            return names, said.content[0].text, refused.content[0].text

    names, said, refused = asyncio.run(asyncio.wait_for(work(), 60))
    assert {"send_message", "schedule_task", "list_destinations"} <= names
    assert said.startswith("Sent to this conversation as message ")
    assert refused.startswith("you have no destination 'family'")
    assert postroom.column("SELECT message FROM responses WHERE chat_id = :chat", chat=chat) == [f"hello, {mode}"]


def test_a_chat_that_does_not_exist_ends_the_command_at_once(postroom: Postroom) -> None:
    postroom.run("agents", "set", "helper")
    assert "no chat 99999 " in postroom.refused("tools", "helper", "--chat", "99999", code=DoesNotExist.exit_code)


def test_an_agent_that_does_not_exist_ends_the_command_at_once(postroom: Postroom) -> None:
    assert "nobody" in postroom.refused("tools", "nobody", code=DoesNotExist.exit_code)
