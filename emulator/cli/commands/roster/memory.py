"""``emulator memory``: what an agent remembers, and forgetting it."""

from typing import Annotated

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, TextTable, local_time, result

app = group("What agents remember: MEMORY.md of their folders, and the lines that they wrote down.")

Agent = Annotated[str, typer.Argument(metavar="AGENT")]


@command(app, "show")
def show_memory(api: RestClient, agent: Agent) -> CommandResult:
    """Show what an agent knows in its turns: its MEMORY.md, its skills, and each line with the turn that wrote it."""
    found = api.get("agents", agent, "memory")
    skills = api.get("agents", agent, "skills")
    left_out = f" Its last {found['leftOut']} bytes are left out of prompts." if found["leftOut"] else ""
    known = f"MEMORY.md: {len(found['index'])} characters.{left_out}" if found["index"] else "There is no MEMORY.md."
    table = TextTable(
        ("line", "when", "from messages of", "message", "read in", "text"),
        [
            (
                each["id"],
                local_time(each["createdAt"]),
                each["by"],
                each["messageId"] or "",
                _readers(each["isShared"], each["withStrangers"], each["sessionId"]),
                each["text"],
            )
            for each in found["lines"]
        ],
        f"{agent} has written down nothing.",
    )
    named = f"Skills: {', '.join(each['name'] for each in skills) or 'none'}."
    return result({**found, "skills": skills}, known, named, table)


def _readers(is_shared: bool, with_strangers: bool, session: int) -> str:
    if is_shared:
        return "every conversation with known people"
    return f"the conversation of session {session}" + (", where strangers write" if with_strangers else "")


@command(app, "forget")
def forget_memory(
    api: RestClient,
    agent: Agent,
    line: Annotated[str | None, typer.Argument(metavar="[LINE]", help="The id of a line: memory_…")] = None,
    person: Annotated[
        str | None, typer.Option(help="All lines from messages of this person: CHANNEL:ID, such as telegram:4711.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All lines of the agent.")] = False,
) -> CommandResult:
    """Delete what an agent wrote down: one line, all that came from one person's messages, or everything."""
    if sum((line is not None, person is not None, everything)) != 1:
        raise errors.UsageError("name what to forget: a LINE, --person CHANNEL:ID, or --all")
    if line is not None:
        return result(api.delete("agents", agent, "memory", line), f"{agent} has forgotten {line}.")
    channel, colon, sender = (person or "").partition(":")
    if person is not None and not (channel and colon and sender):
        raise errors.UsageError(f"--person {person!r}: write CHANNEL:ID, such as telegram:4711")
    gone = api.delete("agents", agent, "memory", channel=channel or None, senderId=sender or None)
    return result(gone, f"{agent} has forgotten {gone['deleted']} lines.")
