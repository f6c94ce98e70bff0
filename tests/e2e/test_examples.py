"""The documentation is true: each command of a page prints what the page shows, in a running emulator."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from emulator.base.hints import command_line
from emulator.cli.app import app
from tests.docs.pages import COMMANDS, blocks
from tests.e2e.conftest import API_TOKEN, ROOT, System

pytestmark = [pytest.mark.e2e, pytest.mark.any_python]

RUNNER = CliRunner()
EXAMPLES = sorted(path.parent for path in (ROOT / "docs/examples").glob("*/README.md"))
NUMBER = re.compile(r"\d{2,}")
ID = re.compile(r"\b(?:approval|pairing|session|series)_\w+")
SPAN = re.compile(r"\d+ (?:d|h|min|s)(?: \d+ (?:h|min|s))?\b")
CODE = re.compile(r"\b[0-9A-Z]{4}-[0-9A-Z]{4}\b")
HERE = re.compile(r" --state [^\s`]+")  # a page shows commands for the folder where a person is


class Reader:
    """Runs the commands of a page. *ids*: those that the page shows, and what they are here."""

    def __init__(self, system):
        self.system, self.ids, self.commands = system, {}, 0

    def run(self, line):
        """The lines that a command prints, which begins with ``$ emulator``."""
        self.commands += 1
        words = shlex.split(ID.sub(lambda found: self.ids[found[0]], line), comments=True)[2:]
        done = RUNNER.invoke(app, [*words, "--state", str(self.system.state)], env={"POSTROOM_API_TOKEN": API_TOKEN})
        assert done.exit_code == 0, (line, done.output)
        return HERE.sub("", done.output.replace(command_line(), "emulator")).splitlines()

    def sees(self, shown, printed):
        """Whether *shown* is among the lines; ``…`` stands for the rest of one; ids and long numbers may differ."""
        begin = shape(shown.removesuffix("…"))
        for line in printed:
            if shape(line) == begin or (shown.endswith("…") and shape(line).startswith(begin)):
                self.ids.update(zip(ID.findall(shown), ID.findall(line), strict=False))
                return True
        return False


def shape(line):
    line = ID.sub("id", CODE.sub("code", " ".join(line.split())))
    return NUMBER.sub("0", SPAN.sub("a while", line))


def follow(page, reader):
    """Run what the page shows, block by block; what it shows of the output is printed."""
    for block in blocks(page):
        printed = []
        for line in block.lines if block.is_of_emulator and not block.mark else ():
            if line.startswith("$ "):
                printed = reader.run(line)
            else:
                assert reader.sees(line, printed), (page.name, line, printed)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_command_of_an_example_prints_what_the_page_shows(example, tmp_path):
    system = System(tmp_path / "state", environment={"POSTROOM_CONFIG": str(example / "postroom.toml")})
    try:
        system.start()
        reader = Reader(system)
        follow(example / "README.md", reader)
    finally:
        system.stop()
    assert reader.commands > 5


# What the pages take for granted: chats 2 and 3, and agents with these names.
GIVEN = (
    "$ emulator chat telegram --once hello",
    "$ emulator chat telegram --as Ben --once hello",
    "$ emulator chat discord --once hello",
    *(f"$ emulator agents set {agent}" for agent in ("coder", "reviewer", "helper")),
    "$ emulator wirings set 2 coder --also",
)


def test_each_command_of_the_other_pages_prints_what_they_show(tmp_path):
    system = System(tmp_path / "state")
    try:
        system.start()
        reader = Reader(system)
        for line in GIVEN:
            reader.run(line)
        for page in COMMANDS:
            if page.parent not in EXAMPLES:
                follow(page, reader)
    finally:
        system.stop()
    assert reader.commands > len(GIVEN) + 15
