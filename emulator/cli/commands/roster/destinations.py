"""``emulator destinations``: where each agent may send, and under which name."""

from typing import Annotated

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, TextTable, result

app = group("Destinations: where each agent may send, and under which name.")

Agent = Annotated[str, typer.Argument(metavar="AGENT")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name that the agent uses: a-z, 0-9, _ and -.")]


@command(app, "list")
def list_destinations(
    api: RestClient, agent: Annotated[str | None, typer.Argument(metavar="[AGENT]", help="Only of this agent.")] = None
) -> CommandResult:
    """List the chats and agents to which agents may send; all else is forbidden."""
    found = api.get("destinations", agent=agent)
    rows = [(each["agent"], each["name"], _target(each["chatId"], each["toAgent"])) for each in found]
    empty = f"There is no destination. A wiring makes its chat one: {api.command_line('wirings set CHAT AGENT')}"
    return result(found, TextTable(("agent", "name", "destination"), rows, empty))


@command(app, "set")
def set_destination(
    api: RestClient,
    agent: Agent,
    name: Name,
    chat: Annotated[int | None, typer.Option(min=1, help="The number of a chat.")] = None,
    to: Annotated[str | None, typer.Option(help="The id of another agent.")] = None,
) -> CommandResult:
    """Let an agent send to a chat or to another agent by this name; an existing destination is renamed."""
    if (chat is None) == (to is None):
        raise errors.UsageError("name the destination by either --chat NUMBER or --to AGENT")
    body = {"chatId": chat} if chat is not None else {"toAgent": to}
    saved = api.put("agents", agent, "destinations", name, body=body)
    return result(saved, f"Agent {agent} may send to {_target(chat, to)} by the name {name}.")


@command(app, "delete")
def delete_destination(api: RestClient, agent: Agent, name: Name) -> CommandResult:
    """Stop an agent from sending there. For a chat in which it answers, delete the wiring instead."""
    gone = api.delete("agents", agent, "destinations", name)
    return result(gone, f"Agent {agent} may no longer send to {name}.")


def _target(chat: int | None, agent: str | None) -> str:
    return f"agent {agent}" if chat is None else f"chat {chat}"
