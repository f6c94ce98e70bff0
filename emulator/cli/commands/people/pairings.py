"""``emulator pair`` and ``emulator pairings``: one-time codes that make the first owner, or pair a user or a chat."""

import shlex
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, TextTable, local_time, result
from shared.core.time import clock
from shared.core.time.durations import time_span

app = group("Pairings: the one-time codes and their status.")

Id = Annotated[str, typer.Argument(metavar="PAIRING", help="Its id: pairing_...")]
Agent = Annotated[str | None, typer.Option(help="The agent; without it, an admin is an admin of everything.")]


def pair(
    api: RestClient,
    admin: Annotated[bool, typer.Option("--admin", help="Make an admin.")] = False,
    member: Annotated[bool, typer.Option("--member", help="Let a person talk to an agent.")] = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Let an agent answer in the chat where the code is sent.")
    ] = False,
    agent: Agent = None,
) -> CommandResult:
    """Make a one-time code. The first person who sends it to the bot becomes an owner, or what the options say."""
    chosen = [name for name, is_so in (("admin", admin), ("member", member), ("chat", chat)) if is_so]
    if len(chosen) > 1:
        raise errors.UsageError(f"a code is for one thing: use only one of {', '.join(f'--{name}' for name in chosen)}")
    grants = chosen[0] if chosen else "owner"
    if agent is None and (member or chat):
        raise errors.UsageError(f"--{grants} is about one agent: name it with --agent")
    if agent is not None and grants == "owner":
        raise errors.UsageError("an owner owns everything; with --agent, use --admin, --member or --chat")
    made = api.post("pairings", body={"grants": grants, **({"agent": agent} if agent else {})})
    expires_at = made["expiresAt"]
    until = f"{local_time(expires_at)} ({time_span(expires_at - clock.now_ms() + 999)})"
    return result(
        made,
        f"The first person who sends this {_becomes(grants, agent)}. It works once, until {until}.",
        f"Send it to your bot{_where(grants)}:",
        "",
        f"    {made['say']}",
        "",
        *_ways(api, made),
    )


@command(app, "list")
def list_pairings(api: RestClient, limit: Limit = 20) -> CommandResult:
    """List the pairings, newest first. The codes themselves are not stored."""
    found = api.get("pairings", limit=limit)
    table = TextTable(
        ("pairing", "for", "agent", "status", "used by user", "made", "valid until"),
        [
            (
                each["pairingId"],
                each["grants"],
                each["agent"],
                each["status"],
                each["usedBy"],
                local_time(each["createdAt"]),
                local_time(each["expiresAt"]),
            )
            for each in found
        ],
        f"There is no pairing. To make one: {api.command_line('pair')}",
    )
    return result(found, table)


@command(app, "revoke")
def revoke(api: RestClient, pairing: Id) -> CommandResult:
    """Revoke a code that is not used yet."""
    return result(api.delete("pairings", pairing), f"The code of {pairing} is revoked.")


def _becomes(grants: str, agent: str | None) -> str:
    return {
        "owner": "becomes an owner, who may do everything",
        "admin": f"becomes an admin of {agent or 'everything'}",
        "member": f"may talk to {agent}",
        "chat": f"lets {agent} answer in the chat where it is sent",
    }[grants]


def _where(grants: str) -> str:
    return ", in the chat where the agent should answer" if grants == "chat" else ", in a direct chat with it"


def _ways(api: RestClient, made: dict[str, Any]) -> list[str]:
    back = "pairings revoke " + made["pairingId"]
    ways = [f"To revoke it: {api.command_line(back)}"]
    if api.state is not None:
        say = f"chat telegram --once {shlex.quote(made['say'])}"
        ways.insert(0, f"Or on the fake Telegram: {api.command_line(say)}")
    return ways
