"""``docs/cli.md`` names every command and every exit code, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer
import typer.core

from emulator.base import errors, faults
from emulator.cli.app import app
from emulator.cli.help_order import GROUPS

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "cli.md").read_text()


def commands(of: click.Command, *before: str) -> Iterator[tuple[str, click.Command]]:
    """All commands with their whole names."""
    for name, command in getattr(of, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield " ".join((*before, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_docs(name: str) -> None:
    assert re.search(rf"`emulator {name}[ `]", TEXT)


# `exec` prints what its command prints.
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"exec"}))
def test_every_command_prints_json(name: str) -> None:
    assert any("--json" in parameter.opts for parameter in COMMANDS[name].params)


@pytest.mark.parametrize("path", [*DOCS.glob("*.md"), DOCS.parent / "README.md"], ids=lambda path: path.name)
def test_no_document_names_an_unknown_command_or_option(path: Path) -> None:
    for line in re.findall(r"`(?:\.venv/bin/)?emulator ([a-z][^`]*)`", path.read_text()):
        words = line.split(" -- ")[0].split()
        name = next((" ".join(words[:count]) for count in (3, 2, 1) if " ".join(words[:count]) in COMMANDS), None)
        assert name is not None, f"emulator {line}"
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts + parameter.secondary_opts}
        strange = {word for word in words if word.startswith("--") and word not in known}
        assert not strange, f"emulator {line}"


def test_every_fault_is_in_the_docs() -> None:
    assert faults.table() in TEXT, "write the table of emulator.base.faults again"


def test_every_exit_code_is_in_the_docs() -> None:
    assert errors.table() in TEXT, "write the table of emulator.base.errors again"


def test_the_help_begins_with_run_and_every_command_has_a_group() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group | typer.core.TyperGroup)
    names = group.list_commands(click.Context(click.Command("emulator")))

    assert names[0] == "run"
    assert set(names) == set(group.commands)
    assert [name for name in names if not any(name in of_group for of_group in GROUPS.values())] == []
