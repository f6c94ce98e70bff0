"""``emulator diff`` and ``emulator seed``: compare the agents file with the database, and apply it."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.cli.client import RestClient
from emulator.cli.output import CommandResult, Part, TextTable, cell, result, shorten

if TYPE_CHECKING:  # its imports take longer than any other command takes to run
    from shared.roster.roster_file import Roster, RosterDifference

DIFFERS = 1  # like diff(1)

File = Annotated[
    Path | None,
    typer.Option(
        envvar="POSTROOM_CONFIG",
        show_envvar=False,
        help="The agents file; default: POSTROOM_CONFIG, else postroom.toml here.",
    ),
]


def show_differences(api: RestClient, file: File = None) -> CommandResult:
    """Show how postroom.toml and the database differ. Ends with 1 if they do; what counts is the database."""
    path, named = _read(file)
    found = _differences(api, named)
    follow = api.command_line(f"seed --apply{_again(file)}")
    way = f"The database is in use; `{follow}` applies the file to it{_kept(found)}."
    return _told(path, found, _refusal(api, named, found) or way, code=DIFFERS)


def seed(
    api: RestClient,
    file: File = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Change the database; without it, the differences are only shown.")
    ] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Also delete agents and teams that are only in the database.")
    ] = False,
) -> CommandResult:
    """Show what postroom.toml would change in the database; with --apply change it, all or nothing.

    Settings that the file does not name stay.
    """
    path, named = _read(file)
    if not apply:
        found = _differences(api, named)
        way = api.command_line(f"seed --apply{' --delete' if delete else ''}{_again(file)}")
        rest = "" if delete else _kept(found)
        next_step = f"Nothing was changed; `{way}` applies the file to the database{rest}."
        return _told(path, found, _refusal(api, named, found, delete=delete) or next_step)
    try:
        followed = api.put("roster", body=named._asdict(), delete="true" if delete else None)
    except (errors.NotReady, errors.TimedOut):
        raise  # the outcome is unknown
    except EmulatorError as error:
        error.args = (f"{error}. Nothing was changed",)
        raise
    done, left = followed["done"], followed["kept"]
    kept = (f"Only in the database, and kept (--delete deletes them): {', '.join(left)}.",) if left else ()
    return result(
        {"file": str(path), "done": done, "kept": left},
        *(done or [f"The database already has everything in {path}."]),
        *kept,
    )


def _again(file: Path | None) -> str:
    """The --file option for the next command, if it needs one."""
    is_set = file is None or str(file) == os.environ.get("POSTROOM_CONFIG")
    return "" if is_set else f" --file {shlex.quote(str(file))}"


def _kept(found: "list[RosterDifference]") -> str:
    """What the next command does with agents and teams that are only in the database."""
    is_left = any(each.file is None and not each.field for each in found)
    return "; it keeps agents and teams that are only in the database, unless you add --delete" if is_left else ""


def _differences(api: RestClient, named: "Roster") -> "list[RosterDifference]":
    from shared.roster import roster_file  # late: no other command needs it

    return roster_file.differences(named, _stored(api))


def _refusal(api: RestClient, named: "Roster", found: "list[RosterDifference]", *, delete: bool = False) -> str | None:
    """Why the database would refuse the file, and what to do; None where it would take it."""
    if not found or api.past is not None:
        return None
    try:
        api.put("roster", body=named._asdict(), delete="true" if delete else None, check="true")
    except (errors.NotReady, errors.TimedOut):
        raise
    except EmulatorError as error:
        return f"The database refuses the file as it is: {error}. Mend that first."
    return None


def _read(file: Path | None) -> "tuple[Path, Roster]":
    from shared.core.settings import AGENTS_FILE
    from shared.roster import roster_file

    path = file or Path(AGENTS_FILE)
    if not path.is_file():
        copy = "" if file else "copy postroom.example.toml, or "
        raise errors.DoesNotExist(f"{path} does not exist: {copy}name the file with --file or in POSTROOM_CONFIG")
    return path, roster_file.read(path)


def _stored(api: RestClient) -> "Roster":
    """The agents and teams of the database in the form of a file."""
    from shared.roster.roster_file import Roster

    agents, teams = api.get("agents"), api.get("teams")
    return Roster(
        {id_: {**agent, "model": agent["model"] or None} for id_, agent in agents.items()},
        {
            id_: {"name": team["name"], "leader": team["leader_agent"], "agents": team["agents"]}
            for id_, team in teams.items()
        },
        next((id_ for id_, agent in agents.items() if agent["default"]), None),
        {each["name"]: {"agent": each["agent"]} for each in api.get("accounts")},
    )


def _told(path: Path, found: "list[RosterDifference]", way: str, *, code: int = 0) -> CommandResult:
    facts = {"file": str(path), "differences": [each._asdict() for each in found]}
    if not found:
        return result(facts, f"{path} and the database agree.")
    parts: list[Part] = [TextTable(("setting", str(path), "database"), [_row(each) for each in found], "")]
    return result(facts, *parts, way, code=code)


def _row(each: "RosterDifference") -> tuple[str, str, str]:
    if not each.field:
        return each.where, *(("present", "-") if each.database is None else ("-", "present"))
    file, database = cell(each.file), cell(each.database)
    same = next((at for at, (a, b) in enumerate(zip(file, database, strict=False)) if a != b), 0)
    if same > 40:  # two long texts: show them from shortly before their first difference
        file, database = f"…{file[same - 10 :]}", f"…{database[same - 10 :]}"
    return each.where, shorten(file) or "(none)", shorten(database) or "(none)"
