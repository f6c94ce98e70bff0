"""The output of commands for people and for programs."""

import io
import json

import pytest

from emulator.cli import output
from emulator.cli.output import FactList, TextTable, local_time, readable, result, shorten
from shared.core.time.durations import time_span
from tests.support import NOW


def read(*parts: output.Part, as_json: bool = False, facts: object = None) -> str:
    stream = io.StringIO()
    output.write(result(facts, *parts), as_json=as_json, stream=stream)
    return stream.getvalue()


def test_programs_get_the_facts_and_nothing_else() -> None:
    assert json.loads(read("A sentence.", as_json=True, facts={"name": "Zoë"})) == {"name": "Zoë"}


def test_a_table_in_a_pipe_is_neither_cut_nor_coloured() -> None:
    table = TextTable(("id", "title"), [(1, "x" * 500), (None, ["a", "b"])], "none")
    head, first, second = read(table).splitlines()
    assert head.split() == ["id", "title"]
    assert first.split() == ["1", "x" * 500]
    assert second.split() == ["a,", "b"]


def test_a_table_without_rows_prints_its_sentence() -> None:
    assert read(TextTable(("id",), [], "There is no agent.")) == "There is no agent.\n"


def test_facts_stand_below_each_other_and_empty_ones_are_left_out() -> None:
    assert read(FactList({"a": "one", "long name": "two\n\nthree", "none": None, "list": [], "is": False})) == (
        "a          one\nlong name  two\n\n           three\nis         no\n"
    )


def test_the_name_of_a_fact_can_not_forge_another_fact() -> None:
    assert read(FactList({"a\nstate": "x"})) == "a\\nstate  x\n"


def test_sentences_follow_each_other_and_a_table_stands_apart() -> None:
    assert read("One.", "Two.", TextTable(("a",), [(1,)], ""), "Three.") == "One.\nTwo.\n\na\n1\n\nThree.\n"


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("one\ntwo\r", r"one\ntwo\r"),
        ("\u202eevil", r"\u202eevil"),
        ("[bold]Zoë[/bold] 🙂", "[bold]Zoë[/bold] 🙂"),
        ("a\udcffb", r"a\udcffb"),
    ],
)
def test_a_name_can_not_move_the_cursor_or_colour_or_split_a_line(name: str, seen: str) -> None:
    assert read(TextTable(("name",), [(name,)], "")).splitlines()[1] == seen
    assert seen in read(FactList({"name": name.replace("\n", "")})) or "\n" in name


@pytest.mark.parametrize(
    ("text", "shortened"),
    [("short", "short"), ("x" * 60, "x" * 60), ("x" * 61, "x" * 59 + "…"), ("a\nb", "a…"), ("", "")],
)
def test_a_long_text_is_cut_and_marked(text: str, shortened: str) -> None:
    assert shorten(text) == shortened


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (-5, "0 s"),
        (999, "0 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (3_723_000, "1 h 2 min"),
        (180_000_000, "2 d 2 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(ms: int, said: str) -> None:
    assert time_span(ms) == said


HOSTILE = "\x1b[2J\x9b31m\u202e\nerror: forged"


@pytest.mark.parametrize(
    "part",
    [
        HOSTILE,
        TextTable(("a",), [], HOSTILE),
        TextTable((HOSTILE,), [(HOSTILE,), ([HOSTILE],), ({HOSTILE: HOSTILE},)], ""),
        FactList({HOSTILE: HOSTILE, "list": [HOSTILE], "dict": {HOSTILE: HOSTILE}}),
    ],
    ids=["a sentence", "the sentence of an empty table", "a table", "facts"],
)
def test_no_part_of_a_result_acts_on_the_terminal_or_makes_a_line(part: output.Part) -> None:
    shown = read(part)
    assert shown.replace("\n", "").isprintable()
    assert not any(line.startswith("error:") for line in shown.splitlines())


def test_json_is_escaped_as_json() -> None:
    shown = read(as_json=True, facts={"name": HOSTILE})
    assert shown.replace("\n", "").isprintable()
    assert json.loads(shown) == {"name": HOSTILE}


def test_instants_in_the_data_of_an_event_are_readable() -> None:
    """An operator at night reads no epoch milliseconds."""
    data = {"reason": "x", "retry_count": 3, "deliver_after": NOW, "is_last": True, "part": 10**12 - 1}
    assert readable(data) == {**data, "deliver_after": local_time(NOW)}
