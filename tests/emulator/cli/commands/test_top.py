"""``emulator top``: what needs an operator, in words, where the output is no terminal."""

from shared.db.engine.connection import transaction
from shared.db.roster import agent_pauses
from tests.emulator.cli.commands.conftest import Postroom
from tests.support import NOW, put


def test_the_first_line_is_the_answer_and_the_books_follow(postroom: Postroom) -> None:
    put(postroom.conn, "hello")
    with transaction(postroom.conn):
        agent_pauses.pause(postroom.conn, "assistant", "auth", "the login has expired", now_ms=NOW)

    shown = postroom.run("top").stdout

    first, *_ = shown.splitlines()
    assert first.endswith("things need you. Everything else is moving.")
    assert "Agent assistant is paused" in shown
    assert "waiting" in shown
    assert "1: 1 for an act" in shown
    assert "accepted 1 = 0 answered + 1 waiting; they balance" in shown


def test_programs_get_the_overview_of_the_api(postroom: Postroom) -> None:
    assert {"sentence", "needsYou", "mendsItself", "numbers", "books"} < set(postroom.json("top"))
