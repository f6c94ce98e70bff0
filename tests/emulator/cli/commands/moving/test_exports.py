"""``emulator export`` of an emulator's folder, and of the installation that POSTROOM_DB names."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from emulator.cli.app import app
from shared.roster.new_database import prepare_database


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["export", *arguments])
    assert done.exit_code == code, f"{done.stdout}{done.stderr}{done.exception!r}"
    return done


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of an emulator that does not run."""
    (tmp_path / "state").mkdir()
    prepare_database(tmp_path / "state/postroom.db")
    return tmp_path / "state"


def test_an_export_says_what_it_wrote(state: Path, tmp_path: Path) -> None:
    said = run(str(tmp_path / "out"), "--state", str(state)).stdout
    assert "agents.jsonl" in said
    assert "manifest.json names every file" in said
    facts = json.loads(run(str(tmp_path / "more"), "--state", str(state), "--format", "parquet", "--json").stdout)
    assert facts["tables"]["agents"]["rows"] == 1
    assert (tmp_path / "more/agents.parquet").exists()


def test_it_refuses_a_full_folder_and_a_person_without_a_platform(state: Path, tmp_path: Path) -> None:
    assert "nothing was written" in run(str(state), "--state", str(state), code=65).stderr
    assert "telegram:4711" in run(str(tmp_path / "o"), "--state", str(state), "--person", "4711", code=65).stderr
    assert "no database" in run(str(tmp_path / "o"), "--state", str(tmp_path / "no"), code=66).stderr
    assert not (tmp_path / "o").exists()


def test_on_a_host_it_takes_the_installation_s_database(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents/assistant").mkdir(parents=True)
    (tmp_path / "agents/assistant/MEMORY.md").write_text("x")
    monkeypatch.setenv("POSTROOM_DB", str(state / "postroom.db"))
    monkeypatch.setenv("POSTROOM_AGENTS_DIR", str(tmp_path / "agents"))
    facts = json.loads(run(str(tmp_path / "out"), "--json").stdout)
    assert [each["path"] for each in facts["files"]] == ["agents/assistant/MEMORY.md"]
