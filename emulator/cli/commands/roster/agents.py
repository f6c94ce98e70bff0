"""``emulator agents``: the agents and their settings."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands import setting_options
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result
from shared.db.roster.agents import SETTINGS

app = group("Agents and their settings.")

Id = Annotated[str, typer.Argument(metavar="AGENT", help="Its id: a-z, 0-9, _ and -.")]


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
    return result(found, table, *paused_lines(api, found))


def paused_lines(api: RestClient, agents: dict[str, Any]) -> Iterator[str]:
    """A sentence for each paused agent: why, and what lets it go on."""
    return (
        f"Agent {id_} is paused: {of['paused']['reason']}. To go on: {api.command_line(f'agents resume {id_}')}"
        for id_, of in agents.items()
        if "paused" in of
    )


@command(app, "show")
def show_agent(api: RestClient, agent: Id) -> CommandResult:
    """Show one agent with all its settings."""
    found = api.get("agents", agent)
    return result(found, FactList({"agent": f"{agent} {_default(found)}".strip(), **_facts(found)}))


@command(app, "set", settings=SETTINGS)
def set_agent(
    api: RestClient,
    agent: Id,
    *,
    instructions_file: Annotated[
        Path | None, typer.Option(help="The instructions from a file; - reads them from standard input.")
    ] = None,
    share_folder: Annotated[
        bool, typer.Option("--share-folder", help="Allow a folder that another agent uses too.")
    ] = False,
    default: Annotated[
        bool, typer.Option("--default", help="Make it the default agent, which answers where no agent is named.")
    ] = False,
    **settings: Any,
) -> CommandResult:
    """Create an agent, or change the given settings of one; its other settings stay."""
    settings["instructions"] = _instructions(settings.get("instructions"), instructions_file)
    change = setting_options.read(SETTINGS, settings)
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
    """Pause an agent: a turn that runs continues, and messages wait until `agents resume`."""
    paused = api.post("agents", agent, "pause", body={} if reason is None else {"reason": reason})
    return result(paused, f"Agent {agent} is paused. To go on: {api.command_line(f'agents resume {agent}')}")


@command(app, "resume")
def resume_agent(api: RestClient, agent: Id) -> CommandResult:
    """Resume a paused agent. What waits is answered in order."""
    resumed = api.post("agents", agent, "resume")
    return result(resumed, f"Agent {agent} {'goes on' if resumed['resumed'] else 'was not paused'}.")


def _default(settings: dict[str, Any]) -> str:
    words = ["default"] if settings["default"] else []
    return ", ".join([*words, f"paused: {settings['paused']['code']}"] if "paused" in settings else words)


def _pause(of: dict[str, Any]) -> dict[str, Any]:
    if "paused" not in of:
        return {}
    pause = of["paused"]
    until = local_time(pause["until"]) if pause["until"] else "until it is fixed or resumed"
    return {"paused": pause["reason"], "paused since": local_time(pause["since"]), "paused until": until}


def _provider(settings: dict[str, Any]) -> str:
    """Its provider; of an agent with ``auto`` also what that chose."""
    if settings["provider"] != "auto":
        return str(settings["provider"])
    return f"auto ({settings['chosen_provider'] or 'nothing chosen yet'})"


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    long = {"config": of["config"], "instructions": of["instructions"] or "(none)"}
    short = {name: each for name, each in SETTINGS.items() if name not in long}
    own = {
        "provider": _provider(of),
        "model": of["model"] or "(default of its provider)",
        "folder": of["working_directory"],
    }
    return {**_pause(of), **setting_options.facts(short, of), **own, **long}


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
