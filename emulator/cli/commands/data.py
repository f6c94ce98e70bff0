"""``emulator data``: the data in the state folder."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from emulator.base import errors
from emulator.base.hints import STATE, command_line
from emulator.base.state import StateFolder, describe_use, find_running
from emulator.base.terminal import escape
from emulator.cli.commands.frame import fail, group

State = Annotated[Path, typer.Option(help="The folder that keeps the database, the bucket and the chats.")]

app = group("The data that the emulator keeps.")


@app.command()
def reset(
    state: State = STATE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete the database, the bucket and the chats in the state folder."""
    folder = StateFolder(state.resolve())
    if not folder.path.exists():
        _print(f"{state} does not exist: nothing to delete")
        return
    if find_running(folder) is not None:
        fail(f"stop the emulator first: {describe_use(folder)}", errors.AlreadyInUse.exit_code)
    if folder.problem is not None:
        fail(f"{folder.problem}; nothing was deleted", errors.Unsafe.exit_code)
    if not yes:
        if not sys.stdin.isatty():
            fail(f"this deletes everything in {state}: confirm with --yes", os.EX_USAGE)
        if not typer.confirm(f"Delete the database, the bucket and the chats in {state}?"):
            raise typer.Exit(1)
    left = folder.remove()
    if left:
        _print(f"{state} stays, because it has files that the emulator did not make: {', '.join(left)}")
    deleted = "Everything else" if left else state
    _print(f"{deleted} is deleted; `{command_line('run', state)}` begins with an empty database")


def _print(text: str) -> None:
    print(escape(text))  # noqa: T201
