"""``emulator verify``: whether the bucket restores to what is in the database."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.base import environment, errors
from emulator.base.hints import STATE, command_line
from emulator.base.state import StateFolder, running
from emulator.cli import output
from emulator.cli.commands.frame import fail
from emulator.cli.output import CommandResult, TextTable, result
from shared.core.errors import PostroomError

if TYPE_CHECKING:
    from infra.litestream import Comparison

State = Annotated[Path, typer.Option(help="The folder of the emulator that is meant.")]
Json = Annotated[bool, typer.Option("--json", help="As one JSON object.")]


def verify(state: State = STATE, as_json: Json = False) -> None:
    """Restore the bucket beside the database, and compare. Ends with 65 when they differ, 69 when nobody knows."""
    from emulator.storage.replica import socket_in  # the way to the database, which no other command goes
    from infra.litestream import compare_with_restore, comparison_facts

    folder = StateFolder(state.resolve())
    who = running(folder)
    if who is None:
        fail(
            f"no emulator is running in {state}: start it with `{command_line('run', state)}`",
            errors.NotReady.exit_code,
        )
    if not who:
        fail(f"the emulator in {state} is just starting: ask again in a moment", errors.TimedOut.exit_code)
    told = who["environment"]
    try:
        found = compare_with_restore(
            folder.database, told["EMULATOR_REPLICA_URL"], socket_in(folder.run), environment.base(os.environ) | told
        )
    except PostroomError as error:
        fail(f"it was not verified: {error}", errors.NotReady.exit_code)
    said = _said(found, comparison_facts(found))
    output.write(said, as_json=as_json)
    raise typer.Exit(said.code)


def _said(found: "Comparison", facts: dict[str, object]) -> CommandResult:
    compared = f"{found.rows} rows in {found.tables} tables, position {found.position}, {found.seconds:.1f} s"
    if found.is_equal:
        return result(facts, f"The bucket restores to what is in the database: {compared}.")
    if found.damage is not None:
        return result(facts, f"The bucket does not restore: {found.damage}", code=errors.InvalidInput.exit_code)
    table = TextTable(
        ("table", "rows in the database", "rows in the bucket"),
        [(each.table, _count(each.here), _count(each.there)) for each in found.differences],
        "",
    )
    sentence = f"The bucket does not restore to what is in the database: {compared}."
    return result(facts, sentence, table, code=errors.InvalidInput.exit_code)


def _count(rows: int | None) -> str:
    return "none: it is not there" if rows is None else str(rows)
