"""``emulator verify``: checks that a restore from the bucket equals the database.

The comparison reads the database file, so it runs on the machine that has it. Of a Postroom elsewhere the command shows
the newest comparison that was made there.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.base.shell import of_shell
from emulator.base.state import StateFolder
from emulator.cli import client, output
from emulator.cli.client import RestClient
from emulator.cli.commands import frame
from emulator.cli.output import CommandResult, TextTable, local_time, result
from shared.core.errors import PostroomError

if TYPE_CHECKING:
    from infra.litestream import Comparison


def verify(state: frame.State = None, url: frame.Url = None, as_json: frame.Json = False) -> None:
    """Restore the bucket beside the database, and compare them. Ends with 65 if they differ, 69 if it can't compare."""
    command_result = frame.run_on_either(state, url, of_emulator=_compare, of_postroom=_newest_comparison)
    output.write(command_result, as_json=as_json)
    raise typer.Exit(command_result.code)


def _compare(state: Path) -> CommandResult:
    """Compare now: an emulator on this machine."""
    from emulator.storage.replica import socket_in  # slow imports that no other command needs
    from infra.litestream import compare_with_restore, comparison_facts

    folder = StateFolder(state.resolve())
    variables = client.instance_in(state)["environment"]
    try:
        found = compare_with_restore(
            folder.database,
            variables["EMULATOR_REPLICA_URL"],
            socket_in(folder.run),
            of_shell(os.environ) | variables,
        )
    except PostroomError as error:
        raise errors.NotReady(f"the comparison failed: {error}") from None
    return _describe(found, comparison_facts(found))


def _newest_comparison(api: RestClient) -> CommandResult:
    """What the newest comparison found, on the machine of a Postroom elsewhere."""
    found: Mapping[str, Any] | None = api.get("health")["comparison"]
    if found is None:
        raise errors.NotReady(
            f"{api.url} has made no comparison yet: its supervisor makes one each day (POSTROOM_REPLICA_VERIFY). To "
            f"compare now, run `python -m infra.verify` on its machine, beside infra.replicate"
        )
    compared = f"{found['rows']} rows in {found['tables']} tables, position {found['position']}"
    when = f"The newest comparison at {api.url}, of {local_time(found['at'])}, found"
    now = "To compare now, run `python -m infra.verify` on its machine, beside infra.replicate."
    if found["equal"]:
        return result(found, f"{when} that a restore from the bucket equals the database: {compared}.", now)
    reason = f"differences in {', '.join(found['differences'])}: {compared}"
    if found["damage"]:
        reason = f"that the bucket can't be restored: {found['damage']}"
    return result(found, f"{when} {reason}.", now, code=ExitCode.INVALID)


def _describe(found: "Comparison", facts: dict[str, object]) -> CommandResult:
    compared = f"{found.rows} rows in {found.tables} tables, position {found.position}, {found.seconds:.1f} s"
    if found.is_equal:
        return result(facts, f"A restore from the bucket equals the database: {compared}.")
    if found.damage is not None:
        return result(facts, f"The bucket can't be restored: {found.damage}", code=ExitCode.INVALID)
    table = TextTable(
        ("table", "rows in the database", "rows in the bucket"),
        [(each.table, _count(each.here), _count(each.there)) for each in found.differences],
        "",
    )
    sentence = f"A restore from the bucket differs from the database: {compared}."
    return result(facts, sentence, table, code=ExitCode.INVALID)


def _count(rows: int | None) -> str:
    return "no such table" if rows is None else str(rows)
