"""``emulator search``: where something was said."""

from typing import Annotated

import typer

from emulator.cli.client import RestClient
from emulator.cli.output import CommandResult, TextTable, local_time, result


def search(
    api: RestClient,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="In whatever case.")],
    agent: Annotated[str | None, typer.Option(help="Only what this agent was asked and said.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only on this one.")] = None,
    before: Annotated[int | None, typer.Option(min=1, help="Only before this line.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 20,
) -> CommandResult:
    """Where something was said, by people or by agents; newest first."""
    said = api.get("search", q=text, agent=agent, channel=channel, before=before, limit=limit)
    table = TextTable(
        ("line", "when", "agent", "who", "message", "what"),
        [
            (
                each["id"],
                local_time(each["createdAt"]),
                each["agent"],
                each["agent"] if each["role"] == "assistant" else each["sender"],
                each["messageId"],
                " ".join(each["excerpt"].split()),
            )
            for each in said["found"]
        ],
        "That was not said.",
    )
    if said["next"] is None:
        return result(said, table)
    return result(said, table, f"There may be more: the same with --before {said['next']}")
