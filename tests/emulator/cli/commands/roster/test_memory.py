"""``emulator memory``."""

import pytest

from shared.db.engine.connection import transaction
from shared.db.queue import sessions
from shared.db.roster import memory_lines
from shared.db.roster.memory_lines import LineAuthor, NewLine
from tests.emulator.cli.commands.conftest import Postroom
from tests.support import NOW, column, make_session


@pytest.fixture
def kept(postroom: Postroom) -> list[str]:
    """The ids of three lines: of Ana, of Ben, of both."""
    conn = postroom.conn
    ana, ben = LineAuthor("telegram", "5", "Ana"), LineAuthor("telegram", "6", "Ben")
    with transaction(conn):
        conn.execute("DELETE FROM memory_lines")
    _, session = make_session(conn)
    with transaction(conn):
        return [
            memory_lines.add(
                conn, sessions.known(conn, session), NewLine(text, is_shared, "turn_a", "m1", people), now_ms=NOW
            )
            or ""
            for text, is_shared, people in (
                ("tea", True, (ana,)),
                ("coffee", False, (ben,)),
                ("milk", True, (ana, ben)),
            )
        ]


def test_what_an_agent_remembers_is_shown_with_its_turn(postroom: Postroom, kept: list[str]) -> None:
    shown = postroom.run("memory", "show", "assistant").stdout
    assert "There is no MEMORY.md." in shown
    assert "Skills: none." in shown
    (tea,) = (line for line in shown.splitlines() if "tea" in line)
    assert all(part in tea for part in (kept[0], "Ana", "m1", "every conversation with known people"))
    (coffee,) = (line for line in shown.splitlines() if "coffee" in line)
    assert "the conversation of session" in coffee


def test_one_line_is_forgotten(postroom: Postroom, kept: list[str]) -> None:
    assert postroom.run("memory", "forget", "assistant", kept[0]).stdout == f"assistant has forgotten {kept[0]}.\n"
    postroom.run("memory", "forget", "assistant", kept[0], code=66)
    assert column(postroom.conn, "SELECT text FROM memory_lines ORDER BY id") == ["coffee", "milk"]


def test_the_lines_of_a_person_and_all_lines_are_forgotten(postroom: Postroom, kept: list[str]) -> None:
    run = postroom.run
    assert run("memory", "forget", "assistant", "--person", "telegram:6").stdout == "assistant has forgotten 2 lines.\n"
    assert column(postroom.conn, "SELECT text FROM memory_lines") == ["tea"]
    assert run("memory", "forget", "assistant", "--all").stdout == "assistant has forgotten 1 lines.\n"


@pytest.mark.parametrize("given", [[], ["--person", "ana"], ["--all", "memory_1"]])
def test_what_to_forget_is_named_by_exactly_one_word(postroom: Postroom, given: list[str]) -> None:
    postroom.run("memory", "forget", "assistant", *given, code=64)
