"""``emulator agents``: the agents and their settings."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result
from shared.core.time.durations import parse_ms

app = group("Agents and their settings.")

Id = Annotated[str, typer.Argument(metavar="AGENT", help="Its id: a-z, 0-9, _ and -.")]
Text = Annotated[str | None, typer.Option(metavar="TEXT")]


@command(app, "list")
def list_agents(api: RestClient) -> CommandResult:
    """List all agents."""
    found = api.get("agents")
    table = TextTable(
        ("agent", "name", "provider", "model", "at once", "time zone", ""),
        [
            (id_, of["name"], of["provider"], of["model"], of["concurrency"], of["timezone"], _default(of))
            for id_, of in found.items()
        ],
        f"There is no agent. To create one: {api.command_line('agents set ID')}",
    )
    return result(found, table)


@command(app, "show")
def show_agent(api: RestClient, agent: Id) -> CommandResult:
    """Show one agent with all its settings."""
    found = api.get("agents", agent)
    return result(found, FactList({"agent": f"{agent} {_default(found)}".strip(), **_facts(found)}))


@command(app, "set")
def set_agent(
    api: RestClient,
    agent: Id,
    name: Annotated[str | None, typer.Option(help="The name that people read.")] = None,
    provider: Annotated[
        str | None, typer.Option(help="The program that runs its turns; an unknown name is refused with a list.")
    ] = None,
    model: Annotated[str | None, typer.Option(help='The model; "" means the default of its provider.')] = None,
    instructions: Annotated[str | None, typer.Option(help="The instructions at the beginning of every turn.")] = None,
    instructions_file: Annotated[
        Path | None, typer.Option(help="The instructions from a file; - reads them from standard input.")
    ] = None,
    config: Annotated[str | None, typer.Option(help="A JSON object for its provider.")] = None,
    folder: Annotated[
        str | None, typer.Option(help='Its working folder, below the folder of all agents; "" means its id.')
    ] = None,
    share_folder: Annotated[
        bool, typer.Option("--share-folder", help="Allow a folder that another agent uses too.")
    ] = False,
    concurrency: Annotated[int | None, typer.Option(help="How many turns may run at once.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Its time zone, such as Europe/Zurich.")] = None,
    turn_timeout: Annotated[
        str | None, typer.Option(help='The time limit of a turn, such as 15m; "" means the default of the settings.')
    ] = None,
    idle_timeout: Annotated[
        str | None, typer.Option(help='How long its program may say nothing, such as 5m; "" means the default.')
    ] = None,
    tool_timeout: Annotated[
        str | None, typer.Option(help='The time limit of one tool call of its program; "" means the default.')
    ] = None,
    output_limit: Annotated[
        str | None, typer.Option(help='The bytes that its program may write in a turn; "" means the default.')
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help='The megabytes that its program may hold; "" means the default.')
    ] = None,
    batch_size: Annotated[
        str | None, typer.Option(help='How many messages one turn takes; "" means the default of the settings.')
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(help='Models in its place where it can\'t answer, such as "sonnet,haiku"; "" means none.'),
    ] = None,
    resume_spoken: Annotated[
        bool | None,
        typer.Option(
            "--resume-spoken/--no-resume-spoken", help="Let a turn go on once that said something and then failed."
        ),
    ] = None,
    drafts: Annotated[
        bool | None,
        typer.Option(
            "--drafts/--no-drafts", help="Show people a preview while the agent works, where the platform has one."
        ),
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Make it the default agent, which answers where no agent is named.")
    ] = False,
) -> CommandResult:
    """Create an agent, or change the given settings of one; its other settings stay."""
    change: dict[str, Any] = {
        "name": name,
        "provider": provider,
        "instructions": _instructions(instructions, instructions_file),
        "config": None if config is None else _config(config),
        "concurrency": concurrency,
        "timezone": timezone,
        "resume_spoken": resume_spoken,
        "drafts": drafts,
    }
    change = {key: value for key, value in change.items() if value is not None}
    if models is not None:
        change["models"] = [each.strip() for each in models.split(",") if each.strip()]
    for key, text in (("model", model), ("folder", folder)):
        if text is not None:
            change[key] = text or None
    change |= _limits(
        ("turn_timeout_ms", "--turn-timeout", turn_timeout, _duration),
        ("idle_timeout_ms", "--idle-timeout", idle_timeout, _duration),
        ("tool_timeout_ms", "--tool-timeout", tool_timeout, _duration),
        ("output_limit_bytes", "--output-limit", output_limit, _number),
        ("memory_limit_mb", "--memory-limit", memory_limit, _number),
        ("batch_size", "--batch-size", batch_size, _number),
    )
    change |= {key: True for key, is_so in (("share_folder", share_folder), ("default", default)) if is_so}
    is_there = agent in api.get("agents")  # a retired agent is not listed
    saved = api.put("agents", agent, body=change)
    note = f" {saved['note']}" if "note" in saved else ""
    if not is_there:
        what = "created" if saved["provisioned"] else "restored"
        where = api.command_line(f"wirings set CHAT {agent}")
        return result(saved, f"Agent {agent} is {what}.{note} Where it answers: {where}")
    said = f"Agent {agent}: {', '.join(change)} set." if change else f"Agent {agent} is unchanged."
    return result(saved, said + note)


@command(app, "delete")
def delete_agent(api: RestClient, agent: Id) -> CommandResult:
    """Delete an agent. An agent with history is retired: hidden and unwired; `agents set` brings it back."""
    gone = api.delete("agents", agent)
    if gone["retired"]:
        return result(gone, f"Agent {agent} is retired: its history stays.")
    return result(gone, f"Agent {agent} is deleted.")


@command(app, "pause")
def pause_agent(
    api: RestClient,
    agent: Id,
    reason: Annotated[str | None, typer.Option(help="Why, for other operators.")] = None,
) -> CommandResult:
    """Pause an agent: a turn that runs goes on, and messages wait until `agents resume`."""
    paused = api.post("agents", agent, "pause", body={} if reason is None else {"reason": reason})
    return result(paused, f"Agent {agent} is paused. To go on: {api.command_line(f'agents resume {agent}')}")


@command(app, "resume")
def resume_agent(api: RestClient, agent: Id) -> CommandResult:
    """Let a paused agent go on. What waits is answered in order."""
    resumed = api.post("agents", agent, "resume")
    return result(resumed, f"Agent {agent} {'goes on' if resumed['resumed'] else 'was not paused'}.")


def _default(settings: dict[str, Any]) -> str:
    words = ["default"] if settings["default"] else []
    return ", ".join([*words, f"paused: {settings['paused']['code']}"] if "paused" in settings else words)


def _pause(of: dict[str, Any]) -> dict[str, Any]:
    if "paused" not in of:
        return {}
    pause = of["paused"]
    until = local_time(pause["until"]) if pause["until"] else "until it is mended or resumed"
    return {"paused": pause["reason"], "paused since": local_time(pause["since"]), "paused until": until}


def _provider(settings: dict[str, Any]) -> str:
    """Its provider; of an agent with ``auto`` also what that chose."""
    if settings["provider"] != "auto":
        return str(settings["provider"])
    return f"auto ({settings['chosen_provider'] or 'nothing chosen yet'})"


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    return {
        **_pause(of),
        "name": of["name"],
        "provider": _provider(of),
        "model": of["model"] or "(default of its provider)",
        "models in its place": ", ".join(of["models"]) or "(none)",
        "folder": of["working_directory"],
        "time zone": of["timezone"],
        "turns at once": of["concurrency"],
        "time limit of a turn": f"{of['turn_timeout_ms'] / 1000:g} s" if of["turn_timeout_ms"] else "(default)",
        "time limit of silence": f"{of['idle_timeout_ms'] / 1000:g} s" if of["idle_timeout_ms"] else "(default)",
        "time limit of a tool call": f"{of['tool_timeout_ms'] / 1000:g} s" if of["tool_timeout_ms"] else "(default)",
        "output limit": f"{of['output_limit_bytes']} bytes" if of["output_limit_bytes"] else "(default)",
        "memory limit": f"{of['memory_limit_mb']} MB" if of["memory_limit_mb"] else "(default)",
        "messages a turn": of["batch_size"] or "(default)",
        "goes on after it spoke and failed": "once" if of["resume_spoken"] else "(no)",
        "previews while it works": "yes" if of["drafts"] else "(no)",
        "config": of["config"],
        "instructions": of["instructions"] or "(none)",
    }


def _instructions(text: str | None, file: Path | None) -> str | None:
    if text is not None and file is not None:
        raise errors.UsageError("--instructions and --instructions-file set the same thing: use only one of them")
    if file is None:
        return text
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except OSError as error:
        raise errors.DoesNotExist(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise errors.InvalidInput(f"{file} is not UTF-8 text") from None


def _config(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise errors.UsageError(f"--config is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.UsageError('--config must be a JSON object, such as {"argv": ["./agent.sh"]}')
    return found


def _limits(*given: tuple[str, str, str | None, Callable[[str, str], int | None]]) -> dict[str, int | None]:
    """The limits that an option sets: the field, the option, its text, and the reader of its text."""
    return {name: read(option, text) for name, option, text, read in given if text is not None}


def _duration(option: str, text: str) -> int | None:
    try:
        return parse_ms(text) if text else None
    except ValueError as error:
        raise errors.UsageError(f"{option}: {error}") from None


def _number(option: str, text: str) -> int | None:
    if text and not text.isdecimal():
        raise errors.UsageError(f"{option} must be a whole number, not {text!r}")
    return int(text) if text else None
