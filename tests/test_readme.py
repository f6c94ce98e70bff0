"""README.md shows what the emulator prints now; only figures that differ from start to start may differ."""

import re

import pytest

from tests import readme

pytestmark = pytest.mark.any_python
ID = re.compile(r"\b(turn|telegram|api)_[\w-]+")
NUMBER = re.compile(r"(?<!schema )\b\d+")


def shape(line):
    """The words of the line; of its numbers, that of the schema is kept."""
    return NUMBER.sub("0", ID.sub(r"\1_", " ".join(line.split())))


def is_shown(line, printed):
    """Whether the emulator printed the line, or what begins with it where the page cuts it."""
    begin = shape(line).removesuffix("…")
    return any(each == begin or (line.endswith("…") and each.startswith(begin)) for each in printed)


def before(block, last):
    """The lines up to the one that begins with *last*, sorted: steps end when they end, and a port may be in use."""
    lines = map(shape, block.partition(f"\n{last}")[0].splitlines())
    return sorted(line for line in lines if not line.startswith("note port"))


def test_the_readme_shows_what_the_emulator_prints(tmp_path):
    with readme.started(tmp_path / "project", "--port", "0") as running:
        run, chat = running.session()
        run += running.stop()
    shown = readme.blocks(readme.PAGE.read_text())
    (start,) = (block for command, block in shown.items() if command == "$ make run")
    (said,) = (block for command, block in shown.items() if command.endswith("'hello'"))

    assert before(start, "Ready in") == before(run, "Ready in")
    for block, printed in ((start, run), (said, chat)):
        lines = [shape(line) for line in printed.splitlines()]
        assert [line for line in block.splitlines() if not is_shown(line, lines)] == []
