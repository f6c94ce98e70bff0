"""``emulator permissions``: what agents' own programs may do without another question."""

import json
from typing import Annotated, Any

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, TextTable, local_time, result, shorten

app = group("Permissions: what an agent's own program may do in a chat without another question.")

Id = Annotated[str, typer.Argument(metavar="PERMISSION", help="Its id: permission_...")]


@command(app, "list")
def list_permissions(
    api: RestClient,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    limit: Limit = 100,
) -> CommandResult:
    """List the permissions, newest first."""
    found = api.get("permissions", agent=agent, limit=limit)
    table = TextTable(
        ("permission", "agent", "chat", "tool", "covers", "by", "used", "granted"),
        [
            (
                each["permissionId"],
                each["agent"],
                each["chatId"],
                each["tool"],
                shorten(json.dumps(each["arguments"], ensure_ascii=False)),
                _owner(each),
                each["uses"],
                local_time(each["createdAt"]),
            )
            for each in found
        ],
        'There is no permission: the button "Always allow this here" of a card makes one.',
    )
    return result(found, table)


@command(app, "revoke")
def revoke(api: RestClient, permission: Id) -> CommandResult:
    """Revoke a permission: the program asks again from now on."""
    return result(api.delete("permissions", permission), f"{permission} is revoked: it is asked again from now on.")


def _owner(of: dict[str, Any]) -> str:
    return of["grantedName"] if of["holds"] else f"{of['grantedName']} (not in force: may no longer decide)"
