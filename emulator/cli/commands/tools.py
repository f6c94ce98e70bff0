"""``emulator tools``: the tools of an agent by MCP on standard input and output, for a person's own client.

Each call goes over the REST API, so it works for a Postroom elsewhere too, and needs its token there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.cli.client import RestClient
from emulator.cli.output import CommandResult, result
from shared.agents.access import ToolAnswer, ToolSpec


class RestTools:
    """The tools of one agent over REST; a ``Toolbox``."""

    def __init__(self, api: RestClient, agent: str, chat: int | None) -> None:
        self._api = api
        self._agent = agent
        self._chat = chat
        self._specs = [ToolSpec(each["name"], each["description"], each["schema"]) for each in api.get("tools")]

    def specs(self) -> Sequence[ToolSpec]:
        """The tools."""
        return self._specs

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> ToolAnswer:
        """Call one; what goes wrong on the way is an answer too."""
        body = {"arguments": dict(arguments), "chatId": self._chat, "callId": call_id}
        try:
            found = await asyncio.to_thread(self._api.post, "agents", self._agent, "tools", name, body=body)
        except EmulatorError as error:
            return ToolAnswer(str(error), is_error=True)
        return ToolAnswer(found["text"], found["isError"])


def serve_tools(
    api: RestClient,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent in whose name the tools act.")],
    chat: Annotated[
        int | None, typer.Option(min=1, help="The number of a chat: the conversation in which the agent acts.")
    ] = None,
) -> CommandResult:
    """Serve the agent's tools by MCP on standard input and output, for a desktop client or an editor."""
    api.get("agents", agent)
    if chat is not None and all(each["chatId"] != chat for each in api.get("destinations", agent=agent)):
        raise errors.DoesNotExist(
            f"agent {agent!r} has no chat {chat} among its destinations; `{api.command_line('destinations list')}` "
            f"lists them"
        )
    tools = RestTools(api, agent, chat)
    try:
        from shared.turns.mcp import stdio  # a second to import
    except ImportError as error:
        raise errors.UsageError(f"the tools need the library mcp, which is not installed: {error}") from None
    asyncio.run(stdio.serve(tools))
    return result({})
