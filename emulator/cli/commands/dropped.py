"""``emulator dropped``: what was refused, and why."""

from typing import Annotated

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit
from emulator.cli.output import CommandResult, TextTable, local_time, result


def list_dropped(
    api: RestClient,
    reason: Annotated[str | None, typer.Option(help="Only for this one, such as sender_unknown.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only on this one.")] = None,
    since: Annotated[int | None, typer.Option(min=0, help="Only after this row, oldest first.")] = None,
    limit: Limit = 50,
) -> CommandResult:
    """What was refused and why, newest first; never what somebody wrote."""
    found = api.get("dropped", reason=reason, channel=channel, since_id=since, limit=limit)
    table = TextTable(
        ("row", "when", "channel", "chat", "sender", "reason", "detail"),
        [
            (
                each["id"],
                local_time(each["createdAt"]),
                each["channel"],
                each["platformId"],
                each["senderId"],
                each["reason"],
                each["detail"],
            )
            for each in found
        ],
        "Nothing was refused." if (reason, channel, since) == (None,) * 3 else "Nothing of that kind was refused.",
    )
    return result(found, table)
