"""``emulator export``: everything that a person may want to take away, as files."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.hints import STATE
from emulator.base.state import StateFolder
from emulator.cli.checks import installation
from emulator.cli.checks.finding import Finding
from emulator.cli.commands import frame
from emulator.cli.output import CommandResult, TextTable, result
from emulator.moving import export as exports
from shared.core.time import clock


def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, which gets the files.")],
    form: Annotated[
        exports.Format, typer.Option("--format", help="JSON lines, or Parquet, which needs pyarrow.")
    ] = "json",
    person: Annotated[
        str | None, typer.Option(metavar="CHANNEL:ID", help="Only what is of this person, such as telegram:4711.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The state folder of the emulator.", show_default=str(STATE))
    ] = None,
    as_json: frame.Json = False,
) -> None:
    """Write the rows and the agents' files into a folder, as of one instant, also while the system runs.

    With POSTROOM_DB set, it is that installation's database, unless --state names an emulator.
    """

    def work() -> CommandResult:
        database, agents = _places(state)
        whom = exports.person_of(person) if person is not None else None
        manifest = exports.write(database, agents, folder, form=form, person=whom, now_ms=clock.now_ms())
        return result(manifest, *_told(folder, manifest))

    frame.end_with(work, as_json=as_json)


def _places(state: Path | None) -> tuple[Path, Path]:
    """The database and the agents' folders: of the emulator, or of the installation that POSTROOM_DB names."""
    if state is None and os.environ.get("POSTROOM_DB"):
        chosen = installation.load(os.environ)
        if isinstance(chosen, Finding):
            raise errors.Misconfigured(chosen.says)
        return chosen.db, chosen.agents_dir
    found = StateFolder((state or STATE).resolve())
    return found.database, found.agents


def _told(folder: Path, manifest: dict[str, Any]) -> tuple[TextTable, str]:
    rows = [(each["file"], each["rows"], f"{each['bytes']:,}") for each in manifest["tables"].values() if each["rows"]]
    count, size = len(manifest["files"]), sum(each["bytes"] for each in manifest["files"])
    reasons = Counter(manifest["filesLeftOut"].values())
    left = "".join(f" Not copied: {number}, because {why}." for why, number in reasons.items())
    return (
        TextTable(("file", "rows", "bytes"), rows, "There are no rows."),
        f"{folder} has it, with {count} files of agents ({size:,} bytes).{left} manifest.json names every file, its "
        "rows and its SHA-256. It contains what people wrote: protect it like the database.",
    )
