"""``emulator upgrade``: what the next start does to a database of an earlier release, done or only tried."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.base.hints import command_line, relative
from emulator.cli.commands import frame
from emulator.cli.commands.releases.place import find, refuse_use, told
from emulator.cli.commands.replica.status import size
from emulator.cli.output import CommandResult, FactList, TextTable, result
from shared.db.engine import copies, schema
from shared.db.engine.migrate import lost_rows

if TYPE_CHECKING:
    from emulator.upgrades.steps import Upgrade

DryRun = Annotated[bool, typer.Option("--dry-run", help="Try it on a copy, which is removed; change nothing.")]


def upgrade(state: frame.State = None, dry_run: DryRun = False, as_json: frame.Json = False) -> None:
    """Keep a copy of the database, and migrate it, as the next start would; --dry-run says what that will do.

    The database is that of the state folder, or the one that POSTROOM_DB names.
    """

    def work() -> CommandResult:
        from emulator.upgrades import steps  # slow imports that no other command needs

        database = find(state, os.environ)
        newest = max(schema.migrations())
        if told(lambda: steps.version_of(database)) == newest:
            facts = {"database": str(database), "schema": newest, "migrations": []}
            return result(facts, f"{relative(database)} has schema {newest}, as this release: there is nothing to do")
        if dry_run:
            return _describe(database, state, told(lambda: steps.rehearse(database)), is_rehearsal=True)
        refuse_use(database)
        return _describe(database, state, told(lambda: steps.upgrade(database)), is_rehearsal=False)

    frame.end_with(work, as_json=as_json)


def _describe(database: Path, state: Path | None, done: "Upgrade", *, is_rehearsal: bool) -> CommandResult:
    # An upgrade that goes on has the copy from its beginning.
    kept = [path for version, path in copies.find_all(database).items() if version <= done.found][-1:]
    listed = [
        {"schema": each.version, "what": schema.sentence(each.version), "seconds": round(each.seconds, 3)}
        for each in done.applied
    ]
    facts = {
        "database": str(database),
        "rehearsal": is_rehearsal,
        "found": done.found,
        "schema": done.newest,
        "migrations": listed,
        "bytes": done.bytes,
        "copySeconds": round(done.copy_s, 3),
        "seconds": round(done.migrations_s, 3),
        "copy": None if is_rehearsal else str(kept[0]),
        "rowsBefore": dict(done.before),
        "rowsAfter": dict(done.after),
    }
    table = TextTable(
        ("schema", "seconds", "what it is for"),
        [(each["schema"], f"{each['seconds']:.2f}", each["what"]) for each in listed],
        "",
    )
    where = f"{relative(database)} has schema {done.found}, and this release {done.newest}. Nothing was changed."
    if not is_rehearsal:
        where = f"{relative(database)} has schema {done.newest} now; it had {done.found}."
    lost = lost_rows(done.before, done.after) or "no table has other rows than before"
    measured = " (measured on a copy just now)" if is_rehearsal else ""
    lines = FactList(
        {
            "copy": f"{size(done.bytes)}, made and checked in {done.copy_s:.2f} s"
            + ("" if is_rehearsal else f": {relative(kept[0])}"),
            "migrations": f"{len(listed)} in {done.migrations_s:.2f} s{measured}",
            "rows": f"{_sum(done.before)} before, {_sum(done.after)} after; {lost}",
            "to do it": f"start this release, or `{command_line('upgrade', state)}`" if is_rehearsal else None,
            "to go back": f"`{command_line('rollback', state)}`, with this release",
        }
    )
    return result(facts, where, table, lines)


def _sum(counts: Mapping[str, int]) -> str:
    return f"{sum(counts.values()):,} in {len(counts)} tables"
