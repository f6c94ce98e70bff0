"""``emulator dropped``: events that were dropped, and why."""

from typing import Annotated

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit
from emulator.cli.output import CommandResult, TextTable, local_time, result


def list_dropped(
    api: RestClient,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as sender_unknown.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only on this channel.")] = None,
    since: Annotated[int | None, typer.Option(min=0, help="Only later rows than this one, oldest first.")] = None,
    limit: Limit = 50,
) -> CommandResult:
    """List dropped events and the reasons, newest first; texts are not kept."""
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
        "Nothing was dropped." if (reason, channel, since) == (None,) * 3 else "Nothing of that kind was dropped.",
    )
    return result(found, table)
