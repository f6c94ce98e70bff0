"""Command lines in hints work as they are in the person's terminal."""

import sys
from pathlib import Path

import pytest

from emulator.base.hints import command_line


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that pip installs, in a virtual environment that is not on PATH."""
    path = tmp_path / ".venv" / "bin" / "emulator"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", [str(path), "run"])
    return path


def test_a_command_that_is_not_on_path_is_named_by_its_relative_path(script: Path) -> None:
    assert command_line("run") == ".venv/bin/emulator run"


def test_a_command_on_path_is_named_by_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    assert command_line("status") == "emulator status"


def test_another_emulator_on_path_is_not_named(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other" / "emulator"
    other.parent.mkdir()
    other.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert command_line() == ".venv/bin/emulator"


def test_from_another_folder_the_whole_path_is_given(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    assert command_line("run") == f"{script} run"


def test_a_command_run_as_a_module_is_named_by_the_script_beside_python(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `emulator run --detach`: in a terminal `python` may be another one, without our libraries."""
    monkeypatch.setattr(sys, "argv", ["/somewhere/emulator/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    assert command_line("run") == ".venv/bin/emulator run"
    monkeypatch.setenv("PATH", str(script.parent))
    assert command_line("run") == "emulator run"
    script.unlink()
    assert command_line("run") == "python -m emulator run"


def test_a_state_folder_is_named_unless_it_is_the_default(script: Path, tmp_path: Path) -> None:
    assert command_line("status", tmp_path / ".emulator") == ".venv/bin/emulator status"
    assert command_line("status", Path(".emulator")) == ".venv/bin/emulator status"
    assert command_line("status", tmp_path / "other") == ".venv/bin/emulator status --state other"
    assert command_line("status", tmp_path / "my state") == ".venv/bin/emulator status --state 'my state'"
    assert command_line("status", Path("/somewhere/else")) == ".venv/bin/emulator status --state /somewhere/else"
