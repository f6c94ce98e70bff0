"""No text from outside acts on a terminal, hides, or looks like another line."""

import json
import sys
import unicodedata

import pytest

from emulator.base.terminal import PROSE, escape, escape_json, indent_more

DIRECTIONS = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@pytest.fixture(scope="module")
def unseen():
    """All controls, and all marks of direction: each of Unicode's million characters is asked, and not at an import."""
    every = [chr(number) for number in range(sys.maxunicode + 1)]
    controls = [each for each in every if unicodedata.category(each) in ("Cc", "Zl", "Zp", "Cs")]
    marks = [each for each in every if unicodedata.bidirectional(each) in DIRECTIONS] + ["\u200e", "\u200f", "\u061c"]
    return controls, marks


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b31mred", r"\x9b31mred"),
        ("one\ntwo\r", r"one\ntwo\r"),
        ("\u202eevil", r"\u202eevil"),
        ("[bold]Zoë[/bold] 🙂", "[bold]Zoë[/bold] 🙂"),
        ("a\udcffb", r"a\udcffb"),
        ("", ""),
    ],
)
def test_what_can_not_be_seen_is_escaped(name, seen):
    assert escape(name) == seen


@pytest.mark.parametrize("keep", ["", "\n", PROSE])
def test_every_control_and_every_mark_of_direction_is_escaped(unseen, keep):
    controls, marks = unseen
    assert len(controls) > 2000
    assert len(marks) == 12
    for each in {*controls, *marks} - {*keep}:
        assert escape(f"a{each}b", keep=keep).isprintable(), f"{ord(each):04x}"


def test_prose_keeps_its_lines_and_what_a_script_needs():
    text = "one\n\ttwo\u00a0€ 👩\u200d🚒 re\u200cform"
    assert escape(text, keep=PROSE) == text
    assert escape(f"{text}\x1b", keep=PROSE) == rf"{text}\x1b"


@pytest.mark.parametrize("value", ["\x9b31m", "\u202e", "\U000e0041", "Zoë\n", {"a\x85b": ["\x1b", 1]}])
def test_escaped_json_has_the_same_value(value):
    text = escape_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == value


def test_further_lines_stand_further_right():
    assert indent_more("one\ntwo\n", 2) == "one\n  two\n  "
