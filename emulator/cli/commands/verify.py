"""``emulator verify``: checks that a restore from the bucket equals the database."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.base import environment, errors
from emulator.base.hints import STATE, command_line
from emulator.base.state import StateFolder, find_running
from emulator.cli import output
from emulator.cli.commands.frame import fail
from emulator.cli.output import CommandResult, TextTable, result
from shared.core.errors import PostroomError

if TYPE_CHECKING:
    from infra.litestream import Comparison

State = Annotated[Path, typer.Option(help="The state folder of the emulator.")]
Json = Annotated[bool, typer.Option("--json", help="As one JSON object.")]


def verify(state: State = STATE, as_json: Json = False) -> None:
    """Restore the bucket beside the database, and compare them. Ends with 65 if they differ, 69 if it can't compare."""
    from emulator.storage.replica import socket_in  # slow imports that no other command needs
    from infra.litestream import compare_with_restore, comparison_facts

    folder = StateFolder(state.resolve())
    instance = find_running(folder)
    if instance is None:
        fail(
            f"no emulator is running in {state}: start it with `{command_line('run', state)}`",
            errors.NotReady.exit_code,
        )
    if not instance:
        fail(f"the emulator in {state} is still starting: try again in a moment", errors.TimedOut.exit_code)
    variables = instance["environment"]
    try:
        found = compare_with_restore(
            folder.database,
            variables["EMULATOR_REPLICA_URL"],
            socket_in(folder.run),
            environment.base(os.environ) | variables,
        )
    except PostroomError as error:
        fail(f"the comparison failed: {error}", errors.NotReady.exit_code)
    command_result = _describe(found, comparison_facts(found))
    output.write(command_result, as_json=as_json)
    raise typer.Exit(command_result.code)


def _describe(found: "Comparison", facts: dict[str, object]) -> CommandResult:
    compared = f"{found.rows} rows in {found.tables} tables, position {found.position}, {found.seconds:.1f} s"
    if found.is_equal:
        return result(facts, f"A restore from the bucket equals the database: {compared}.")
    if found.damage is not None:
        return result(facts, f"The bucket can't be restored: {found.damage}", code=errors.InvalidInput.exit_code)
    table = TextTable(
        ("table", "rows in the database", "rows in the bucket"),
        [(each.table, _count(each.here), _count(each.there)) for each in found.differences],
        "",
    )
    sentence = f"A restore from the bucket differs from the database: {compared}."
    return result(facts, sentence, table, code=errors.InvalidInput.exit_code)


def _count(rows: int | None) -> str:
    return "no such table" if rows is None else str(rows)
