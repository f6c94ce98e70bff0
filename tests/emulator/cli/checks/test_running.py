"""Whose settings the doctor speaks of."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.base.environment import EnvSetting
from emulator.base.state import StateFolder
from emulator.cli.app import app
from emulator.cli.checks import running
from emulator.cli.checks.running import System
from shared.roster.new_database import prepare_database

SLEEPS = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def start() -> Iterator[object]:
    """Starts a process with these variables that does nothing, as *words* tell its name."""
    processes = []

    def begin(folder: Path, variables: dict[str, str], *words: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEPS, *words],
            cwd=folder,
            env={"PATH": os.environ["PATH"], **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        processes.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield begin
    for each in processes:
        each.communicate()


def test_an_installation_has_the_settings_of_its_functions_and_not_of_this_shell(
    start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.db"
    prepare_database(path)
    pid = start(tmp_path, {"POSTROOM_DB": "own.db", "POSTROOM_TIMEZONE": "Mars"}, "-m", "infra.runner", "dispatch")
    start(tmp_path, {"POSTROOM_DB": str(path), "A": "of ingest"}, "-m", "infra.runner", "ingest", "--port", "1")
    start(tmp_path, {"POSTROOM_DB": "another.db", "B": "x"}, "-m", "infra.runner", "deliver")
    found = running.find(StateFolder(tmp_path / "state"), {"POSTROOM_DB": str(path), "POSTROOM_TIMEZONE": "UTC"})
    assert (found.name, found.project) == (f"dispatch[{pid}]", tmp_path)
    assert (found.environ["POSTROOM_TIMEZONE"], found.environ["A"]) == ("Mars", "of ingest")
    assert "B" not in found.environ

    monkeypatch.setenv("POSTROOM_DB", str(path))
    shown = CliRunner().invoke(app, ["doctor"]).stdout
    assert f"those of dispatch[{pid}], which runs; variables of this shell don't count" in shown
    assert "settings: POSTROOM_TIMEZONE: unknown time zone" in shown


def test_a_running_emulator_has_the_settings_of_its_start_and_of_its_own_folder(start, tmp_path: Path) -> None:
    pid = start(tmp_path, {"POSTROOM_LEASH": "off"})
    state = StateFolder(tmp_path / "state")
    state.prepare()
    state.instance_file.write_text(json.dumps({"pid": pid}))
    with (state.path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = running.find(state, {"POSTROOM_LEASH": "required"})
    assert (found.name, found.project, found.environ["POSTROOM_LEASH"]) == (f"emulator[{pid}]", tmp_path, "off")


def test_where_nothing_runs_this_shell_counts(tmp_path: Path) -> None:
    shell = {"POSTROOM_DB": str(tmp_path / "p.db")}
    assert running.find(StateFolder(tmp_path), shell) == System(None, shell, Path.cwd())
    assert running.find(StateFolder(tmp_path), {}).name is None


def test_the_emulators_functions_get_the_template_its_exceptions_and_the_files() -> None:
    """The doctor once told of an owner that is missing, where the template lets every chat in."""
    root = Path(__file__).parents[4]
    files = [EnvSetting("POSTROOM_TIMEZONE", "Europe/Zurich", ".env:1")]
    found = running.settings_of_emulator(System(None, {"POSTROOM_NEW_CHATS": "refuse"}, root), files)
    assert (found["POSTROOM_NEW_CHATS"], found["POSTROOM_TIMEZONE"]) == ("wire", "Europe/Zurich")
    assert "POSTROOM_NEW_CHATS" not in running.settings_of_emulator(System(None, {}, Path("/nonexistent")), [])
