"""The step that prepares the database: its sentences about the agents file, and its errors."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from emulator.processes.entrypoints import prepare_database
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment with the paths of the database and of the agents file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSTROOM_CONFIG", raising=False)
    monkeypatch.setenv("POSTROOM_DB", str(tmp_path / "p.db"))
    monkeypatch.setenv("POSTROOM_TIMEZONE", "Asia/Tokyo")
    return tmp_path


@pytest.fixture
def prepared(capsys: pytest.CaptureFixture[str]) -> Any:
    """Prepare the database; returns the exit code and the last line of the output."""

    def run() -> tuple[int, str]:
        read, write = os.pipe()
        code = prepare_database({}, write, ())
        if code:
            os.close(write)
        else:
            assert os.read(read, 8) == b"ready"
        os.close(read)
        return code, capsys.readouterr().out.rstrip("\n")

    return run


def facts(prepared: Any) -> Any:
    code, said = prepared()
    assert code == 0
    return json.loads(said)


def test_without_an_agents_file_nothing_is_said_about_it(folder: Path, prepared: Any) -> None:
    found = facts(prepared)
    assert (found["messages"], found["file"], found["differs"]) == (0, None, False)
    assert {"POSTROOM_DB", "TELEGRAM_BOT_TOKEN", "DISCORD_RELAY_CONTENT"} <= set(found["variables"])
    assert "POSTROOM_ANTHROPIC_API_KEY" in found["of_gateway"]
    conn = open_connection(folder / "p.db", readonly=True)
    assert conn.execute("SELECT timezone FROM agents").get == "Asia/Tokyo", "the settings are those of the functions"
    conn.close()


def test_the_agents_file_is_mentioned_when_it_made_the_agents_or_differs(folder: Path, prepared: Any) -> None:
    file = folder / "postroom.toml"
    file.write_text("[agents.front]\n[agents.back]\n[teams.all]\nagents = ['front', 'back']\n")
    assert facts(prepared)["file"] == "the first agents come from postroom.toml: front, back, @all"
    assert facts(prepared)["file"] is None, "they agree"

    file.write_text("[agents.front]\n")
    found = facts(prepared)
    assert (found["file"], found["differs"]) == (
        "postroom.toml and the database differ in 2 places; the database is used",
        True,
    )


def test_a_file_that_became_invalid_later_does_not_prevent_a_start(folder: Path, prepared: Any) -> None:
    facts(prepared)
    (folder / "postroom.toml").write_text("[agents.front\n")
    found = facts(prepared)
    assert found["file"].startswith("postroom.toml is not valid TOML: ")
    assert found["file"].endswith("; the database stays as it is")
    assert not found["differs"]


def test_an_unusable_database_or_setting_is_one_sentence_with_its_exit_code(
    folder: Path, prepared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "postroom.toml").write_text("[agents.front]\nbatch_size = 0\n")
    code, said = prepared()
    assert (code, said.splitlines()[1:]) == (78, [])
    assert said.startswith("postroom.toml: [agents.front] batch_size: ")

    (folder / "postroom.toml").unlink()
    facts(prepared)
    conn = open_connection(folder / "p.db")
    with transaction(conn):
        meta.put(conn, "schema_version", "9999")
    conn.close()
    code, said = prepared()
    assert code == 78
    assert "has schema 9999" in said

    (folder / "p.db").write_bytes(b"this is no database" * 100)
    code, said = prepared()
    assert code == 65
    assert "is not a database that SQLite can read" in said

    (folder / "p.db").unlink()
    (folder / "p.db").mkdir()
    code, said = prepared()
    assert code == 65
    assert "p.db is a folder" in said
    (folder / "p.db").rmdir()

    monkeypatch.setenv("POSTROOM_BATCH_SIZE", "many")
    code, said = prepared()
    assert code == 78
    assert said.startswith("settings: POSTROOM_BATCH_SIZE: ")
