"""``emulator agents``: who there is, and what they are told."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, result
from shared.core.durations import parse_ms

app = group("Agents: who there is, and what they are told.")

Id = Annotated[str, typer.Argument(metavar="AGENT", help="Its id: a-z, 0-9, _ and -.")]
Text = Annotated[str | None, typer.Option(metavar="TEXT")]


@command(app, "list")
def list_agents(api: RestClient) -> CommandResult:
    """Everybody there is."""
    found = api.get("agents")
    table = TextTable(
        ("agent", "name", "provider", "model", "at once", "time zone", ""),
        [
            (id_, of["name"], of["provider"], of["model"], of["concurrency"], of["timezone"], _default(of))
            for id_, of in found.items()
        ],
        f"There is no agent; make one: {api.command_line('agents set ID')}",
    )
    return result(found, table)


@command(app, "show")
def show_agent(api: RestClient, agent: Id) -> CommandResult:
    """All of one agent."""
    found = api.get("agents", agent)
    return result(found, FactList({"agent": f"{agent} {_default(found)}".strip(), **_facts(found)}))


@command(app, "set")
def set_agent(
    api: RestClient,
    agent: Id,
    name: Annotated[str | None, typer.Option(help="What people read.")] = None,
    provider: Annotated[
        str | None, typer.Option(help="What runs its turns; a wrong one is refused with a list.")
    ] = None,
    model: Annotated[str | None, typer.Option(help='"": its provider\'s own choice.')] = None,
    instructions: Annotated[str | None, typer.Option(help="What it is told at the beginning of every turn.")] = None,
    instructions_file: Annotated[
        Path | None, typer.Option(help="The same, from a file; - is what is typed in.")
    ] = None,
    config: Annotated[str | None, typer.Option(help="A JSON object that only its provider reads.")] = None,
    folder: Annotated[
        str | None, typer.Option(help='Where it works, below the folder of the agents; "": its id.')
    ] = None,
    share_folder: Annotated[
        bool, typer.Option("--share-folder", help="The folder may be another agent's too.")
    ] = False,
    concurrency: Annotated[int | None, typer.Option(help="Turns at once.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Such as Europe/Zurich.")] = None,
    turn_timeout: Annotated[str | None, typer.Option(help='Such as 15m; "": as the settings say.')] = None,
    batch_size: Annotated[str | None, typer.Option(help='Messages a turn takes; "": as the settings say.')] = None,
    default: Annotated[bool, typer.Option("--default", help="It answers where nobody is named.")] = False,
) -> CommandResult:
    """Make an agent, or change what is named of it; the rest stays."""
    change: dict[str, Any] = {
        "name": name,
        "provider": provider,
        "instructions": _instructions(instructions, instructions_file),
        "config": None if config is None else _config(config),
        "concurrency": concurrency,
        "timezone": timezone,
    }
    change = {key: value for key, value in change.items() if value is not None}
    for key, text in (("model", model), ("folder", folder)):
        if text is not None:
            change[key] = text or None
    if turn_timeout is not None:
        change["turn_timeout_ms"] = _duration(turn_timeout)
    if batch_size is not None:
        change["batch_size"] = _number(batch_size)
    change |= {key: True for key, is_so in (("share_folder", share_folder), ("default", default)) if is_so}
    is_there = agent in api.get("agents")  # a retired one is not
    saved = api.put("agents", agent, body=change)
    if not is_there:
        what = "made" if saved["provisioned"] else "back"
        return result(
            saved, f"Agent {agent} is {what}. Where it answers: {api.command_line(f'wirings set CHAT {agent}')}"
        )
    return result(saved, f"Agent {agent}: {', '.join(change)} set." if change else f"Agent {agent} is as it was.")


@command(app, "delete")
def delete_agent(api: RestClient, agent: Id) -> CommandResult:
    """Let an agent go. One that was talked to is retired: hidden and unwired; `agents set` brings it back."""
    gone = api.delete("agents", agent)
    if gone["retired"]:
        return result(gone, f"Agent {agent} is retired: it was talked to, and what was said stays.")
    return result(gone, f"Agent {agent} is gone.")


def _default(settings: dict[str, Any]) -> str:
    return "default" if settings["default"] else ""


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": of["name"],
        "provider": of["provider"],
        "model": of["model"] or "(its provider's own)",
        "folder": of["working_directory"],
        "time zone": of["timezone"],
        "turns at once": of["concurrency"],
        "a turn takes": f"{of['turn_timeout_ms'] / 1000:g} s at most" if of["turn_timeout_ms"] else "(as set)",
        "messages a turn": of["batch_size"] or "(as set)",
        "config": of["config"],
        "instructions": of["instructions"] or "(none)",
    }


def _instructions(text: str | None, file: Path | None) -> str | None:
    if text is not None and file is not None:
        raise errors.UsageError("--instructions and --instructions-file are the same thing: give one of them")
    if file is None:
        return text
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except OSError as error:
        raise errors.DoesNotExist(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise errors.InvalidInput(f"{file} is no text in UTF-8") from None


def _config(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise errors.UsageError(f"--config is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.UsageError('--config has to be a JSON object, such as {"argv": ["./agent.sh"]}')
    return found


def _duration(text: str) -> int | None:
    try:
        return parse_ms(text) if text else None
    except ValueError as error:
        raise errors.UsageError(f"--turn-timeout: {error}") from None


def _number(text: str) -> int | None:
    if text and not text.isdecimal():
        raise errors.UsageError(f"--batch-size is a whole number, not {text!r}")
    return int(text) if text else None
