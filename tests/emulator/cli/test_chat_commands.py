"""What a person can do in the terminal chat besides writing: tests/emulator/platforms/test_chat_commands.py runs it."""

import pytest

from emulator.cli import chat_commands

PATHS = {
    "notes.txt": ("notes.txt", ""),
    "notes.txt read this, don't skip it": ("notes.txt", "read this, don't skip it"),
    "'my notes.txt' read": ("my notes.txt", "read"),
    '"my notes.txt"': ("my notes.txt", ""),
    "": None,
    "'open": None,
}


@pytest.mark.parametrize(("rest", "expected"), PATHS.items(), ids=PATHS)
def test_a_path_with_spaces_stands_in_quotes(rest, expected):
    found = chat_commands._PATH.fullmatch(rest)
    assert (found and (found[1] or found[2] or found[3], found[4])) == expected
