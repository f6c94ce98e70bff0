"""``emulator search``: finds a text in the history."""

from typing import Annotated

import typer

from emulator.cli.client import RestClient
from emulator.cli.output import CommandResult, TextTable, local_time, result


def search(
    api: RestClient,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to find; case does not matter.")],
    agent: Annotated[str | None, typer.Option(help="Only messages to and from this agent.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only on this channel.")] = None,
    before: Annotated[int | None, typer.Option(min=1, help="Only lines before this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="The maximum number of lines.")] = 20,
) -> CommandResult:
    """Find a text that people or agents wrote, newest first."""
    found = api.get("search", q=text, agent=agent, channel=channel, before=before, limit=limit)
    table = TextTable(
        ("line", "when", "agent", "author", "message", "text"),
        [
            (
                each["id"],
                local_time(each["createdAt"]),
                each["agent"],
                each["agent"] if each["role"] == "assistant" else each["sender"],
                each["messageId"],
                " ".join(each["excerpt"].split()),
            )
            for each in found["found"]
        ],
        "Nothing was found.",
    )
    if found["next"] is None:
        return result(found, table)
    return result(found, table, f"There may be more: repeat it with --before {found['next']}")
