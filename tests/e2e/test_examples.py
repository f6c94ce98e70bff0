"""The examples in docs/examples are true: each command of a page prints what the page shows, in a running emulator."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from emulator.cli.app import app
from tests.e2e.conftest import API_TOKEN, ROOT, System
from tests.readme import blocks

pytestmark = pytest.mark.e2e

RUNNER = CliRunner()
EXAMPLES = sorted(path.parent for path in (ROOT / "docs/examples").glob("*/README.md"))
NUMBER = re.compile(r"\d{2,}")
ID = re.compile(r"\b(?:approval|session|series)_\w+")


class Reader:
    """Runs the commands of a page. *ids*: those that the page shows, and what they are here."""

    def __init__(self, system):
        self.system, self.ids, self.commands = system, {}, 0

    def run(self, line):
        """The lines that a command prints, which begins with ``$ emulator``."""
        self.commands += 1
        words = shlex.split(ID.sub(lambda found: self.ids[found[0]], line))[2:]
        done = RUNNER.invoke(app, [*words, "--state", str(self.system.state)], env={"POSTROOM_API_TOKEN": API_TOKEN})
        assert done.exit_code == 0, (line, done.output)
        return done.output.splitlines()

    def sees(self, shown, printed):
        """Whether *shown* is among the lines; ``…`` stands for the rest of one; ids and long numbers may differ."""
        begin = shape(shown.removesuffix("…"))
        for line in printed:
            if shape(line) == begin or (shown.endswith("…") and shape(line).startswith(begin)):
                self.ids.update(zip(ID.findall(shown), ID.findall(line), strict=False))
                return True
        return False


def shape(line):
    return NUMBER.sub("0", ID.sub("id", " ".join(line.split())))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_command_prints_what_the_page_shows(example, tmp_path):
    system = System(tmp_path / "state", environment={"POSTROOM_CONFIG": str(example / "postroom.toml")})
    page = (example / "README.md").read_text()
    try:
        system.start()
        reader = Reader(system)
        for block in blocks(page).values():
            printed = []
            for line in block.splitlines():
                if line.startswith("$ "):
                    printed = reader.run(line)
                else:
                    assert reader.sees(line, printed), (line, printed)
    finally:
        system.stop()
    assert reader.commands > 5
