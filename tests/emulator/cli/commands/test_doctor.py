"""``emulator doctor``: with nothing running, and its exit code."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from emulator.cli.app import app
from shared.db.engine import past, restore_proofs
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.past import Past
from shared.db.roster import agent_pauses
from shared.roster.new_database import prepare_database
from tests.shared.db.replica.test_replica_report import HOUR, PROOF


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder without settings, as the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSTROOM_DB", raising=False)
    return tmp_path


def test_it_works_with_nothing_there_and_makes_nothing(project: Path) -> None:
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 0, shown.stdout
    assert "database    " in shown.stdout
    assert "will be made at the first start" in shown.stdout
    assert list(project.iterdir()) == []


def test_a_problem_is_shown_with_what_mends_it_and_ends_with_1(project: Path) -> None:
    (project / ".env").write_text("POSTROOM_LEASH=loose\n")
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 1
    assert (
        "problem  settings    settings: .env:1: POSTROOM_LEASH is none of the words 'auto', 'off' or 'required'"
        in shown.stdout
    )
    assert "to fix it: correct the value" in shown.stdout


def test_the_database_of_an_installation_is_checked_by_its_setting(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "own.db"
    prepare_database(path)
    path.chmod(0o644)
    monkeypatch.setenv("POSTROOM_DB", str(path))
    shown = CliRunner().invoke(app, ["doctor", "--json"])
    assert shown.exit_code == 1
    checks = {each["subject"]: each for each in json.loads(shown.stdout)["checks"]}
    assert checks["database"]["mend"] == f"chmod 600 {path}"
    assert checks["replica"]["level"] == "warning"
    assert "port" not in checks


@pytest.mark.parametrize(("free_mb", "level"), [(10, "problem"), (90, "warning")])
def test_a_disk_without_room_is_told_once_in_the_words_of_the_status(
    project: Path, monkeypatch: pytest.MonkeyPatch, free_mb: int, level: str
) -> None:
    path = project / "own.db"
    prepare_database(path)
    monkeypatch.setenv("POSTROOM_DB", str(path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_mb * 1024 * 1024))
    shown = CliRunner().invoke(app, ["doctor", "--json"])
    (found,) = [each for each in json.loads(shown.stdout)["checks"] if f"{free_mb} MB" in each["says"]]
    assert (found["subject"], found["level"]) == ("disk", level)
    assert "nothing more can be stored" in found["says"]


def test_a_paused_agent_is_a_warning_with_its_reason(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "own.db"
    prepare_database(path)
    conn = open_connection(path)
    with transaction(conn):
        agent_pauses.pause(conn, "assistant", "auth", "401: expired", now_ms=1)
    conn.close()
    monkeypatch.setenv("POSTROOM_DB", str(path))
    shown = CliRunner().invoke(app, ["doctor"])
    assert "assistant is paused (auth), and its messages wait: 401: expired" in shown.stdout
    assert "warning  needs you   agent assistant" in shown.stdout
    assert "When it is fixed: emulator agents resume assistant" in shown.stdout


def test_a_copy_of_the_past_is_judged_as_of_its_instant(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copied = project / "own.db", Past("file:///replica", "", "0000000000000009", "2026-11-27T10:00:00Z")
    prepare_database(path)
    conn = open_connection(path)
    with transaction(conn):
        past.mark(conn, copied)
        restore_proofs.add(conn, PROOF._replace(made_at=past.now_ms(copied) - 48 * HOUR))
    conn.close()
    monkeypatch.setenv("POSTROOM_DB", str(path))
    shown = CliRunner().invoke(app, ["doctor"])
    assert "a restore of 2 d ago was the database" in shown.stdout
