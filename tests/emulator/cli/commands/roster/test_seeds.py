"""``emulator diff`` and ``emulator seed``: compare the agents file with the database, and apply it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulator.cli.client import find
from tests.emulator.cli.commands.conftest import Postroom, serve, stop

FILE = """
default = "coder"

[agents.assistant]
name = "Assistant"
instructions = "{}"

[agents.coder]
name = "Coder"
concurrency = 2

[teams.dev]
leader = "coder"
agents = ["assistant", "coder"]
"""
LONG = "You answer briefly, and say when you do not know what is asked of you."

Write = Callable[[str], None]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Postroom]:
    """A Postroom after its first start without a file: it has one agent."""
    process, served = serve(tmp_path)
    yield served
    stop(process, served)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the file in the working folder of the commands."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return lambda text: Path("postroom.toml").write_text(text) and None


def test_apply_makes_the_database_agree_with_the_file(fresh: Postroom, file: Write) -> None:
    file(FILE.format(LONG))
    fresh.run("agents", "set", "assistant", "--instructions", LONG.replace("know", "see"))
    fresh.run("agents", "set", "late")

    shown = fresh.run("diff", code=1).stdout.splitlines()
    table = [[part.strip() for part in line.split("  ") if part] for line in shown[1:7]]
    assert table == [
        [
            "agents.assistant.instructions",
            "…ou do not know what is asked of you.",
            "…ou do not see what is asked of you.",
        ],
        ["agents.coder", "present", "-"],
        ["agents.late", "-", "present"],
        ["teams.dev", "present", "-"],
        ["default", "coder", "assistant"],
        [],
    ]
    assert f" seed --apply --url {fresh.url}` applies the file to it; it keeps agents and teams that" in shown[-1]

    before = fresh.column("SELECT json_group_array(id || updated_at) FROM agents")
    assert "Nothing was changed" in fresh.run("seed").stdout
    assert "it keeps agents" in fresh.run("seed").stdout
    assert "it keeps agents" not in fresh.run("seed", "--delete").stdout
    assert fresh.column("SELECT json_group_array(id || updated_at) FROM agents") == before

    assert fresh.run("seed", "--apply").stdout.splitlines() == [
        "agents.assistant instructions",
        "agents.coder made",
        "default coder",
        "teams.dev made",
        "Only in the database, and kept (--delete deletes them): agents.late.",
    ]
    assert fresh.column("SELECT instructions FROM agents WHERE id = 'assistant'") == [LONG]
    assert fresh.column("SELECT id FROM agents WHERE is_default = 1") == ["coder"]
    assert fresh.column("SELECT leader FROM teams") == ["coder"]

    assert fresh.json("seed", "--apply", "--delete")["done"] == ["agents.late deleted"]
    assert fresh.run("diff").stdout == "postroom.toml and the database agree.\n"
    assert fresh.run("seed", "--apply").stdout == "The database already has everything in postroom.toml.\n"


def test_delete_moves_the_default_first_and_deletes_teams_before_agents(fresh: Postroom, file: Write) -> None:
    fresh.run("agents", "set", "old", "--default")
    fresh.run("teams", "set", "olds", "--agents", "old")
    file("[agents.assistant]\n")
    assert fresh.json("seed", "--apply", "--delete")["done"] == [
        "default assistant",
        "teams.olds deleted",
        "agents.old deleted",
    ]


def test_an_empty_model_in_the_file_removes_the_model(fresh: Postroom, file: Write) -> None:
    file("[agents.assistant]\nmodel = ''\n")
    assert fresh.run("diff").stdout == "postroom.toml and the database agree.\n"
    fresh.run("agents", "set", "assistant", "--model", "big")
    assert "it keeps agents" not in fresh.run("diff", code=1).stdout
    assert fresh.json("seed", "--apply")["done"] == ["agents.assistant model"]
    assert fresh.column("SELECT model FROM agents") == [None]


def test_the_hint_names_the_same_file(postroom: Postroom, file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file("[agents.new]\n")
    Path("postroom.toml").rename("my agents.toml")
    assert " --file 'my agents.toml'" in postroom.run("seed", "--file", "my agents.toml").stdout
    monkeypatch.setenv("POSTROOM_CONFIG", "my agents.toml")
    assert "--file" not in postroom.run("seed").stdout


@pytest.mark.parametrize("last", ["provider = 'nobody'", "folder = '../x'"])
def test_a_file_with_one_refused_setting_changes_nothing(fresh: Postroom, file: Write, last: str) -> None:
    first = "default = 'one'\n[agents.assistant]\nname = 'A'\n[agents.one]\n[teams.t]\nagents = ['one']\n"
    file(f"{first}[agents.two]\n{last}\n")
    before = fresh.column("SELECT json_group_array(id || name || updated_at) FROM agents")
    said = fresh.refused("seed", "--apply", code=65)
    assert said.startswith("error: agent 'two': ")
    assert said.endswith(". Nothing was changed\n")
    assert fresh.column("SELECT json_group_array(id || name || updated_at) FROM agents") == before


@pytest.mark.parametrize("command", ["diff", "seed"])
@pytest.mark.parametrize("last", ["provider = 'nobody'", "folder = '../x'"])
def test_a_file_that_would_be_refused_is_not_recommended(fresh: Postroom, file: Write, command: str, last: str) -> None:
    file(f"[agents.assistant]\nname = 'A'\n[agents.two]\n{last}\n")
    said = fresh.run(command, code=1 if command == "diff" else 0).stdout
    assert "The database refuses the file as it is: agent 'two': " in said
    assert "--apply" not in said
    assert fresh.column("SELECT name FROM agents") == ["Assistant"]


def test_an_agent_that_can_not_be_deleted_keeps_the_database_unchanged(fresh: Postroom, file: Write) -> None:
    fresh.run("agents", "set", "busy")
    wait = {"message": "hi", "agent": "busy", "processAfter": 4_000_000_000_000}
    find(None, fresh.url).post("message", body=wait)
    file("[agents.assistant]\nname = 'A'\n")
    said = fresh.refused("seed", "--apply", "--delete", code=1)
    assert "1 message waits for agent 'busy'" in said
    assert fresh.column("SELECT name FROM agents ORDER BY id") == ["Assistant", "busy"]


def test_a_wrong_or_missing_file_is_reported(postroom: Postroom, file: Write) -> None:
    assert "postroom.toml does not exist: copy postroom.example.toml, or name the file" in postroom.refused(
        "diff", code=66
    )
    file("[agents.a]\nbatch_size = 0\n")
    assert "[agents.a] batch_size: " in postroom.refused("diff", code=78)
    assert "elsewhere.toml" in postroom.refused("seed", "--apply", "--file", "elsewhere.toml", code=66)
