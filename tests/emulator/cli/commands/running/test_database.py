"""``emulator db`` over a real database."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from emulator.cli.app import app
from shared.db.engine.connection import open_connection
from shared.roster.new_database import prepare_database


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    prepare_database(folder / "postroom.db", timezone="UTC", agents_file=None)
    return folder


def ask(state: Path, *arguments: str, **more: str) -> Result:
    return CliRunner().invoke(app, ["db", "--state", str(state), *arguments], **more)  # type: ignore[arg-type]


def test_a_select_gives_a_table_and_json(state: Path) -> None:
    assert ask(state, "SELECT 1 AS one, 'a' AS letter").stdout.split() == ["one", "letter", "1", "a"]
    assert json.loads(ask(state, "SELECT x'c0' AS bytes", "--json").stdout) == [{"bytes": "c0"}]
    assert ask(state, "SELECT * FROM messages").stdout == "no rows\n"


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM agents", "the statement changes rows"),
        ("SELECT 1; SELECT 2", "one statement at a time; this is a second one: SELECT 2"),
        ("SELEC 1", 'SQLite says: near "SELEC": syntax error'),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", "add a LIMIT"),
    ],
)
def test_what_is_refused_says_why(state: Path, sql: str, says: str) -> None:
    done = ask(state, sql)

    assert (done.exit_code, says in done.stderr) == (65, True), done.stderr


def test_changes_need_a_word_of_the_operator(state: Path) -> None:
    change = "UPDATE agents SET name = 'Other' RETURNING id"

    assert ask(state, change, "--write").exit_code == 64
    assert ask(state, change, "--write", "--yes").exit_code == 0
    names = open_connection(state / "postroom.db", readonly=True).execute("SELECT DISTINCT name FROM agents").fetchall()
    assert names in ([], [("Other",)])


def test_without_a_statement_the_shell_of_sqlite_answers(state: Path) -> None:
    done = ask(state, input=".tables\n")

    assert "agent_messages" in done.output


def test_what_a_person_wrote_does_not_steer_the_terminal(state: Path) -> None:
    hostile = "SELECT char(27) || '[2J' AS text"

    assert "\x1b[2J" not in ask(state, hostile).output
    assert "\x1b[2J" not in ask(state, input=f"{hostile};\n").output
