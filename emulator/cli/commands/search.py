"""``emulator search``: where something was said."""

from typing import Annotated

import typer

from emulator.cli.client import Rest
from emulator.cli.output import Answer, Table, answer, when


def search(
    api: Rest,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="In whatever case.")],
    agent: Annotated[str | None, typer.Option(help="Only what this agent was asked and said.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only on this one.")] = None,
    before: Annotated[int | None, typer.Option(min=1, help="Only before this line.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 20,
) -> Answer:
    """Where something was said, by people or by agents; newest first."""
    said = api.get("search", q=text, agent=agent, channel=channel, before=before, limit=limit)
    table = Table(
        ("line", "when", "agent", "who", "message", "what"),
        [
            (
                each["id"],
                when(each["createdAt"]),
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
        return answer(said, table)
    return answer(said, table, f"There may be more: the same with --before {said['next']}")
