"""``emulator data``: the data in the state folder."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base.errors import ExitCode
from emulator.base.hints import STATE, command_line
from emulator.base.state import StateFolder, describe_use, find_running
from emulator.cli import output
from emulator.cli.commands import frame
from emulator.cli.commands.frame import fail, group
from emulator.cli.output import CommandResult, TextTable, local_time, result
from emulator.storage import snapshots

State = Annotated[Path, typer.Option(help="The folder that keeps the database, the bucket and the chats.")]

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

app = group("The data that the emulator keeps.")


@app.command()
def reset(
    state: State = STATE,
    yes: Yes = False,
    as_json: frame.Json = False,
) -> None:
    """Delete the database, the bucket and the chats in the state folder. Snapshots stay."""
    folder = StateFolder(state.resolve())
    if not folder.path.exists():
        output.write(result(_deleted(folder, []), f"{state} does not exist: nothing to delete"), as_json=as_json)
        return
    if find_running(folder) is not None:
        fail(f"stop the emulator first: {describe_use(folder)}", ExitCode.IN_USE)
    if folder.problem is not None:
        fail(f"{folder.problem}; nothing was deleted", ExitCode.REFUSED)
    _confirm(state, yes=yes)
    left = folder.remove(keep=("snapshots",))
    lines: list[str] = []
    if left == ["snapshots"]:
        lines.append(f"the snapshots in {state} stay: `{command_line('data list', state)}`")
    elif left:
        lines.append(f"{state} stays, because it has files that the emulator did not make: {', '.join(left)}")
    deleted = "Everything else" if left else state
    lines.append(f"{deleted} is deleted; `{command_line('run', state)}` begins with an empty database")
    output.write(result(_deleted(folder, left), *lines), as_json=as_json)


def _deleted(folder: StateFolder, left: list[str]) -> dict[str, Any]:
    return {"state": str(folder.path), "left": left}


Name = Annotated[str, typer.Argument(metavar="NAME|FOLDER", help="A name, or a folder's path, which has a slash.")]


@app.command("snapshot")
def take_snapshot(name: Name, state: State = STATE, as_json: frame.Json = False) -> None:
    """Keep a copy of the database, the chats and the agents' folders, also while the emulator runs."""

    def work() -> CommandResult:
        taken = snapshots.take(StateFolder(state.resolve()), name)
        back = command_line(f"data restore {name}", state)
        return result(asdict(taken), f"{_describe(taken)}; to go back, when the emulator has stopped: `{back}`")

    frame.end_with(work, as_json=as_json)


@app.command("restore")
def restore_snapshot(name: Name, state: State = STATE, yes: Yes = False, as_json: frame.Json = False) -> None:
    """Go back to a snapshot. What is there now is deleted, the bucket too: a new replica begins with the next start."""

    def work() -> CommandResult:
        folder = StateFolder(state.resolve())
        if not folder.is_blank:
            _confirm(state, yes=yes)
        restored = snapshots.restore(folder, name)
        return result(
            asdict(restored), f"{state} holds {_describe(restored)}; `{command_line('run', state)}` begins there"
        )

    frame.end_with(work, as_json=as_json)


@app.command("seed")
def seed_snapshot(name: Name, state: State = STATE, as_json: frame.Json = False) -> None:
    """Begin with a snapshot where there is neither a database nor a bucket yet; else change nothing."""

    def work() -> CommandResult:
        folder = StateFolder(state.resolve())
        if not folder.is_blank:
            return result({"restored": None}, f"{state} has a database or a bucket already; nothing was changed")
        restored = snapshots.restore(folder, name)
        return result({"restored": asdict(restored)}, f"{state} begins with {_describe(restored)}")

    frame.end_with(work, as_json=as_json)


@app.command("list")
def list_snapshots(state: State = STATE, as_json: frame.Json = False) -> None:
    """List the snapshots in the state folder, newest first."""

    def work() -> CommandResult:
        found = snapshots.find_all(StateFolder(state.resolve()))
        rows = [(each.name, local_time(each.taken_at), each.messages, each.schema, f"{each.bytes:,}") for each in found]
        empty = f"no snapshot; to take one: `{command_line('data snapshot NAME', state)}`"
        return result(
            [asdict(each) for each in found],
            TextTable(("snapshot", "taken", "messages", "schema", "bytes"), rows, empty),
        )

    frame.end_with(work, as_json=as_json)


def _confirm(state: Path, *, yes: bool) -> None:
    """Ask before everything is deleted; without a terminal only *yes* confirms it."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"this deletes the database, the bucket and the chats in {state}: confirm with --yes", ExitCode.USAGE)
    if not typer.confirm(f"Delete the database, the bucket and the chats in {state}?"):
        raise typer.Exit(ExitCode.FAILED)


def _describe(snapshot: snapshots.Snapshot) -> str:
    return f"the snapshot {snapshot.name} of {local_time(snapshot.taken_at)} with {snapshot.messages:,} messages"
