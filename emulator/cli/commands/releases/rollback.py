"""``emulator rollback``: the way back to an earlier release, which loses nothing that came in."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.base.hints import relative
from emulator.cli.commands import frame
from emulator.cli.commands.releases.place import find, refuse_use, told
from emulator.cli.output import CommandResult, FactList, TextTable, result

if TYPE_CHECKING:
    from emulator.upgrades.rollback import Rollback

To = Annotated[int | None, typer.Option("--to", help="The schema to go back to; default: the one before the upgrade.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def rollback(state: frame.State = None, to: To = None, yes: Yes = False, as_json: frame.Json = False) -> None:
    """Give the database the schema from before its upgrade, with all that it holds now, for an earlier release.

    Run it with the release that migrated the database, when nothing else runs; then install the earlier one.
    """

    def work() -> CommandResult:
        from emulator.upgrades import rollback as way_back  # slow imports that no other command needs
        from emulator.upgrades.steps import version_of  # as above

        database = find(state, os.environ)
        refuse_use(database)
        if to is not None and told(lambda: version_of(database)) == to:  # perhaps what called it was interrupted
            facts = {"database": str(database), "schema": to}
            return result(facts, f"{relative(database)} has schema {to} already. Nothing was changed.")
        _confirm(database, yes)
        return _describe_rollback(database, told(lambda: way_back.roll_back(database, to)))

    frame.end_with(work, as_json=as_json)


def _confirm(database: Path, is_confirmed: bool) -> None:
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise errors.UsageError("this gives the database an earlier schema: confirm with --yes")
    if not typer.confirm(f"Give {relative(database)} the schema from before its upgrade?", err=True):
        raise typer.Exit(ExitCode.FAILED)


def _describe_rollback(database: Path, done: "Rollback") -> CommandResult:
    facts = {
        "database": str(database),
        "found": done.found,
        "schema": done.version,
        "kept": str(done.kept),
        "messages": done.messages,
        "carried": [each._asdict() for each in done.carried],
        "leftOut": dict(done.left_out),
    }
    carried = TextTable(
        ("table", "new", "changed", "gone"),
        [(each.table, each.new, each.changed, each.gone) for each in done.carried],
        "Nothing has happened since the upgrade.",
    )
    left = ", ".join(f"{count} of {name}" for name, count in done.left_out.items())
    lines = FactList(
        {
            "messages": f"{done.messages:,}, as many as before the rollback",
            "left out": f"rows that schema {done.version} has no table for: {left}" if left else None,
            "kept": f"{relative(done.kept)}, the database as it was before the rollback",
            "next": f"install the release with schema {done.version}, and start it",
        }
    )
    first = f"{relative(database)} has schema {done.version} again, with all that came in since the upgrade to"
    return result(facts, f"{first} {done.found}.", carried, lines)
