"""The tools on standard input and output, for a program that a person runs, such as a desktop client or an editor."""

import mcp.server.stdio

from shared.agents.access import Toolbox
from shared.turns.mcp.server import sdk_server

_INSTRUCTIONS = (
    "Tools of Postroom, used as one of its agents: what you send goes out to the agent's chats and agents at once. "
    "list_destinations names them."
)


async def serve(tools: Toolbox) -> None:
    """Serve until standard input ends. Only the protocol may write to standard output."""
    server = sdk_server(lambda _: tools, _INSTRUCTIONS)
    async with mcp.server.stdio.stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
