"""``emulator destinations``: where each agent may send, and what it calls that."""

from typing import Annotated

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, TextTable, result

app = group("Destinations: where each agent may send, and what it calls that.")

Agent = Annotated[str, typer.Argument(metavar="AGENT")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the agent writes: a-z, 0-9, _ and -.")]


@command(app, "list")
def list_destinations(
    api: RestClient, agent: Annotated[str | None, typer.Argument(metavar="[AGENT]", help="Only of this one.")] = None
) -> CommandResult:
    """Where agents may send: to these chats and agents, and to nothing else."""
    found = api.get("destinations", agent=agent)
    rows = [(each["agent"], each["name"], _target(each["chatId"], each["toAgent"])) for each in found]
    empty = f"It may send nowhere. A chat comes with its wiring: {api.command_line('wirings set CHAT AGENT')}"
    return result(found, TextTable(("agent", "calls it", "which is"), rows, empty))


@command(app, "set")
def set_destination(
    api: RestClient,
    agent: Agent,
    name: Name,
    chat: Annotated[int | None, typer.Option(min=1, help="The number of a chat.")] = None,
    to: Annotated[str | None, typer.Option(help="Another agent.")] = None,
) -> CommandResult:
    """Let an agent send to a chat or to another agent, by this name; what has another name is renamed."""
    if (chat is None) == (to is None):
        raise errors.UsageError("say either --chat NUMBER or --to AGENT: a destination is one of the two")
    body = {"chatId": chat} if chat is not None else {"toAgent": to}
    saved = api.put("agents", agent, "destinations", name, body=body)
    return result(saved, f"Agent {agent} may send to {_target(chat, to)}, which it calls {name}.")


@command(app, "delete")
def delete_destination(api: RestClient, agent: Agent, name: Name) -> CommandResult:
    """Let the agent send there no more. A chat in which it answers has to be unwired instead."""
    gone = api.delete("agents", agent, "destinations", name)
    return result(gone, f"Agent {agent} may not send to {name} any more.")


def _target(chat: int | None, agent: str | None) -> str:
    return f"agent {agent}" if chat is None else f"chat {chat}"
