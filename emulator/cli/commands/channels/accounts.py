"""``emulator accounts``: the bots and apps of the platforms. On an emulator, a further one is invented at once."""

from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.fakes import PLATFORMS, unknown
from emulator.cli import client
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, result

app = group("Accounts: the bots and apps of the platforms, and whose bot each one is.")

Name = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Such as telegram, or telegram.sales.")]
Agent = Annotated[str | None, typer.Option(help="The agent whose bot it is: it answers in all new chats there.")]


@command(app, "list")
def list_accounts(api: RestClient) -> CommandResult:
    """List the accounts: the first one of each platform, and those that were added."""
    found = api.get("accounts")
    rows = [(each["name"], each["platform"], each["agent"] or "(all)", _bot(each), _state(each)) for each in found]
    return result(found, TextTable(("account", "platform", "agent", "bot", "status"), rows, "There is none."))


@command(app, "show")
def show_account(api: RestClient, account: Name) -> CommandResult:
    """Show one account, with the settings that it needs."""
    found = api.get("accounts", account)
    facts = {
        "account": found["name"],
        "platform": found["platform"],
        "status": _state(found),
        "bot": _bot(found),
        "agent": found["agent"] or "(all)",
        "made by": found["manager"],
        "webhook": found["address"],
        "settings": ", ".join(found["variables"]),
    }
    return result(found, FactList(facts))


def _known(platform: str) -> str:
    if platform not in PLATFORMS:
        raise typer.BadParameter(unknown(platform))
    return platform


@command(app, "add")
def add_account(
    api: RestClient,
    platform: Annotated[
        str, typer.Argument(metavar="PLATFORM", help="The platform of the bot or app.", callback=_known)
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="A word for it, such as sales.")],
    agent: Agent = None,
) -> CommandResult:
    """Add a further bot or app of a platform. On a running emulator it works at once, with a chat page."""
    made = api.post("accounts", body={"platform": platform, "name": name, **({"agent": agent} if agent else {})})
    account = made["account"]
    if api.state is not None:
        return result(made, *_invented(api, account["name"]))
    return result(
        made,
        f"Account {account['name']} is added. Its webhook is {account['address']} at your address.",
        f"Set {' and '.join(account['variables'])} for ingest, dispatch, deliver and sweep, and start them again.",
        f"The steps: docs/channels/{platform}.md",
    )


@command(app, "set")
def set_account(
    api: RestClient,
    account: Name,
    agent: Agent = None,
    everybody: Annotated[bool, typer.Option("--all-agents", help="It is the bot of all agents again.")] = False,
) -> CommandResult:
    """Say whose bot it is. New chats go to that agent; chats that are wired already stay as they are."""
    if (agent is None) == (not everybody):
        raise errors.UsageError("say whose bot it is: either --agent AGENT or --all-agents")
    saved = api.patch("accounts", account, body={"agent": agent})
    return result(saved, f"Account {account} is the bot of {agent or 'all agents'}.")


@command(app, "remove")
def remove_account(
    api: RestClient,
    account: Name,
    force: Annotated[bool, typer.Option("--force", help="Even if responses still wait for it.")] = False,
) -> CommandResult:
    """Take no more webhooks for an account and send nothing more through it. Its chats and their history stay."""
    gone = api.delete("accounts", account, force="true" if force else None)
    if api.state is not None:
        client.ask_platforms(api.state, "DELETE", f"/control/accounts/{account}")
    return result(gone, f"Account {account} is removed. Its webhook answers 404 from now on.")


def _invented(api: RestClient, name: str) -> tuple[str, ...]:
    """Let the fake platform make its bot; how to talk to it."""
    if api.state is None:
        return ()
    client.ask_platforms(api.state, "PUT", f"/control/accounts/{name}")
    page = f"{client.instance_in(api.state)['urls']['gateway']}/_emulator/accounts/{name}/chat"
    return (
        f"Account {name} has a bot on the fake {name.partition('.')[0].title()}, and its webhook is registered.",
        f"Talk to it: {api.command_line(f'chat {name}')}",
        f"Or in a browser: {page}",
    )


def _bot(account: dict[str, Any]) -> str | None:
    return f"@{account['username']}" if account["username"] else account["botId"]


def _state(account: dict[str, Any]) -> str:
    if account["paused"]:
        return f"paused: {account['paused']}"
    words = {"wanted": "waits for a person to make its bot", "given": "is being set up"}
    state = words.get(account["status"], account["status"])
    return f"{state}: {account['failure']}" if account["failure"] else state
