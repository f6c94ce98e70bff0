"""``emulator tool-servers``: programs with tools (MCP) that agents may have, and which agents have them."""

import asyncio
import shutil
import sys
from typing import Annotated

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, TextTable, result

app = group("Tool servers: programs with tools (MCP) that agents may have, on their own leash.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the server: a-z, 0-9 and -.")]
Agent = Annotated[str, typer.Argument(metavar="AGENT")]

_LIMIT_S = 60.0
_MOST_ABOUT = 1000  # characters of what a tool is for


@command(app, "list")
def list_servers(api: RestClient) -> CommandResult:
    """List the tool servers, their tools, and the agents that have them."""
    found = api.get("tool-servers")
    rows = [
        (each["name"], " ".join(each["command"]), ", ".join(each["tools"]), ", ".join(each["agents"])) for each in found
    ]
    empty = f"There is no tool server. To add one: {api.command_line('tool-servers add NAME -- COMMAND')}"
    return result(found, TextTable(("server", "starts", "tools", "agents"), rows, empty))


@command(app, "add")
def add_server(
    api: RestClient,
    name: Name,
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="Its command line.")],
) -> CommandResult:
    """Start the server here, ask it for its tools, and put both on the list. One that changes leaves its agents."""
    program = shutil.which(words[0])
    if program is None:
        raise errors.DoesNotExist(f"the program {words[0]!r} is not on this machine")
    tools = asyncio.run(_tools([program, *words[1:]]))
    saved = api.put("tool-servers", name, body={"command": [program, *words[1:]], "tools": tools})
    taken = f" It changed, so it was taken from {', '.join(saved['takenFrom'])}." if saved["takenFrom"] else ""
    return result(saved, f"{name} is on the list, with {', '.join(tools)}.{taken}")


@command(app, "remove")
def remove_server(api: RestClient, name: Name) -> CommandResult:
    """Delete a server from the list, and so from its agents."""
    return result(api.delete("tool-servers", name), f"{name} is no longer on the list, and no agent has it.")


@command(app, "give")
def give_server(api: RestClient, agent: Agent, name: Name) -> CommandResult:
    """Let an agent have the server, without a question."""
    given = api.put("agents", agent, "tool-servers", name, body={})
    return result(given, f"Agent {agent} has the tools of {name} from its next turn on.")


@command(app, "take")
def take_server(api: RestClient, agent: Agent, name: Name) -> CommandResult:
    """Take the server from an agent."""
    return result(api.delete("agents", agent, "tool-servers", name), f"Agent {agent} no longer has {name}.")


async def _tools(words: list[str]) -> dict[str, str]:
    """What each tool of the server is for, by name."""
    try:
        from mcp import Client, MCPError, StdioServerParameters  # a second to import
        from mcp.client.stdio import stdio_client
    except ImportError as error:
        raise errors.UsageError(f"this needs the library mcp, which is not installed: {error}") from None
    started = StdioServerParameters(command=words[0], args=words[1:])
    try:
        async with (
            asyncio.timeout(_LIMIT_S),
            Client(stdio_client(started, errlog=sys.__stderr__ or sys.stderr)) as client,
        ):
            found = (await client.list_tools()).tools
    except TimeoutError:
        raise errors.InvalidInput(f"{words[0]} did not list its tools within {_LIMIT_S:g} s") from None
    except (MCPError, OSError, ValueError, ExceptionGroup) as error:
        raise errors.InvalidInput(f"{words[0]} is no tool server: {error}") from None
    return {each.name: " ".join((each.description or "").split())[:_MOST_ABOUT] for each in found}
