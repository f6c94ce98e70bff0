"""``emulator users``: the known users, and what they may do."""

from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result

app = group("Known users, and what they may do. All other people are strangers.")

Id = Annotated[int, typer.Argument(metavar="USER", min=1, help="Their number in `users list`.")]
Role = Annotated[
    Literal["owner", "admin", "member"],
    typer.Argument(
        help="An owner may do everything; an admin manages --agent or everything; a member may talk to --agent."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Even if this is the last owner.")]
OfAgent = Annotated[str | None, typer.Option("--agent", help="The agent; required for a member.")]


@command(app, "list")
def list_users(
    api: RestClient,
    channel: Annotated[str | None, typer.Option(help="Only on this channel.")] = None,
    sender_id: Annotated[str | None, typer.Option(help="Only the user with this id on the platform.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only users with a role for this agent.")] = None,
    limit: Limit = 100,
) -> CommandResult:
    """List the users, newest first."""
    found = api.get("users", channel=channel, senderId=sender_id, agent=agent, limit=limit)
    none = "There is no such user" if channel or sender_id or agent else "There is no user yet"
    table = TextTable(
        ("user", "channel", "platform's id", "name", "may"),
        [(each["id"], each["channel"], each["senderId"], each["name"], _may(each)) for each in found],
        f"{none}. To make the first owner: {api.command_line('pair')}",
    )
    return result(found, table)


@command(app, "show")
def show_user(api: RestClient, user: Id) -> CommandResult:
    """Show one user, what they may do, and who granted it."""
    found = api.get("users", user)
    facts = {
        "user": found["id"],
        "channel": found["channel"],
        "platform's id": found["senderId"],
        "name": found["name"],
        "known since": local_time(found["createdAt"]),
        "direct chat": found["directChat"] or "(none yet)",
    }
    rows = [(_role(each), each["grantedBy"], local_time(each["createdAt"])) for each in found["roles"]]
    rows += [(_member(each), each["addedBy"], local_time(each["createdAt"])) for each in found["members"]]
    table = TextTable(("role", "granted by", "since"), rows, "They may do no more than a stranger.")
    return result(found, FactList(facts), table)


@command(app, "add", takes_minus=True)
def add_user(
    api: RestClient,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="telegram, discord, …")],
    sender_id: Annotated[str, typer.Argument(metavar="ID", help="Their id on the platform; a number, not a name.")],
    name: Annotated[str, typer.Option(help="A name for people to read.")] = "",
) -> CommandResult:
    """Add a user, who may do nothing yet."""
    saved = api.post("users", body={"channel": channel, "senderId": sender_id, "name": name})
    user = saved["user"]["id"]
    return result(
        saved,
        f"User {user} is {channel} {sender_id}. Roles: {_may(saved['user']) or 'none yet'}.",
        f"To change that: {api.command_line(f'users grant {user} member --agent AGENT')}",
    )


@command(app, "forget")
def forget_user(api: RestClient, user: Id, force: Force = False) -> CommandResult:
    """Delete a user with all their roles: they are a stranger again."""
    return result(api.delete("users", user, force=_forced(force)), f"User {user} is a stranger again.")


@command(app, "grant")
def grant(api: RestClient, user: Id, role: Role, agent: OfAgent = None) -> CommandResult:
    """Make a user an owner, an admin or a member. Their held messages are then delivered."""
    if role == "member":
        return _describe(api.put("users", user, "members", _named(agent), body={"isRefused": False}))
    return _describe(api.put("users", user, "roles", role, agent=agent))


@command(app, "revoke")
def revoke(api: RestClient, user: Id, role: Role, agent: OfAgent = None, force: Force = False) -> CommandResult:
    """Take exactly this role away. A revoked member is a stranger to the agent, not refused."""
    if role == "member":
        return _describe(api.delete("users", user, "members", _named(agent)))
    return _describe(api.delete("users", user, "roles", role, agent=agent, force=_forced(force)))


@command(app, "refuse")
def refuse(api: RestClient, user: Id, agent: OfAgent = None) -> CommandResult:
    """Let no further message of a user reach an agent, and ask no approver; `revoke USER member` undoes it.

    An owner or an admin of the agent keeps talking to it, so the role has to be revoked first.
    """
    return _describe(api.put("users", user, "members", _named(agent), body={"isRefused": True}))


def _forced(force: bool) -> str | None:
    return "true" if force else None


def _named(agent: str | None) -> str:
    if agent is None:
        raise errors.UsageError("name the agent with --agent")
    return agent


def _describe(saved: dict[str, Any]) -> CommandResult:
    user = saved["user"]
    name = f", {user['name']}" if user["name"] else ""
    label = f"User {user['id']} ({user['channel']} {user['senderId']}{name})"
    return result(saved, f"{label}: {_may(user) or 'no more than a stranger'}.")


def _may(user: dict[str, Any]) -> str:
    return ", ".join([*map(_role, user["roles"]), *map(_member, user["members"])])


def _role(each: dict[str, Any]) -> str:
    if each["role"] == "owner":
        return "owner"
    return f"{each['role']} of {each['agent'] or 'everything'}"


def _member(each: dict[str, Any]) -> str:
    return f"refused by {each['agent']}" if each["isRefused"] else f"member of {each['agent']}"
