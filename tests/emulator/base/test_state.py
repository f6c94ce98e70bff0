"""A state folder belongs to one emulator; a second one is refused with the name of the first."""

import fcntl
import json
import stat
from pathlib import Path

import pytest

from emulator.base.errors import AlreadyInUse, WrongFolder
from emulator.base.hints import command_line
from emulator.base.state import FolderLock, StateFolder, describe_use, find_running
from shared.db.engine.owner_only import replace_text


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / ".emulator")
    folder.prepare()
    return folder


def test_a_second_lock_is_refused_with_the_holder_and_the_ways_out(state: StateFolder) -> None:
    first, second = FolderLock(state), FolderLock(state)
    first.take()
    replace_text(
        state.instance_file,
        json.dumps(
            {"pid": 41802, "started": "2026-11-21T11:58:03+00:00", "urls": {"gateway": "http://127.0.0.1:8081"}}
        ),
    )

    with pytest.raises(AlreadyInUse) as refused:
        second.take()

    for part in ("emulator[41802]", "11:58 UTC", "http://127.0.0.1:8081", command_line("status"), "--ephemeral"):
        assert part in str(refused.value)
    assert refused.value.exit_code == 73


def test_a_lock_can_be_taken_after_its_release(state: StateFolder) -> None:
    lock = FolderLock(state)
    lock.take()
    lock.release()

    FolderLock(state).take()


def test_the_instance_file_of_a_killed_emulator_is_ignored(state: StateFolder) -> None:
    """The lock decides whether an emulator runs; the file only describes it."""
    replace_text(state.instance_file, json.dumps({"pid": 1, "started": "2026-01-01T00:00:00+00:00", "urls": {}}))

    assert find_running(state) is None


def test_another_look_at_the_lock_is_no_emulator(state: StateFolder) -> None:
    """Two commands may look at the same time."""
    with (state.path / "lock").open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)

        assert find_running(state) is None


def test_an_emulator_that_is_starting_is_found_without_facts(state: StateFolder) -> None:
    FolderLock(state).take()

    assert find_running(state) == {}
    assert "is starting" in describe_use(state)


def test_the_folder_is_private_and_ignored_by_git(state: StateFolder) -> None:
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    assert (state.path / ".gitignore").read_text() == "*\n"


def test_secret_and_ports_survive_a_restart(state: StateFolder) -> None:
    kept = state.kept()
    kept["ports"]["s3"] = 9100
    state.keep(kept)

    assert state.kept() == kept
    assert stat.S_IMODE((state.path / "kept.json").stat().st_mode) == 0o600


def test_a_long_path_gets_a_short_folder_for_sockets(tmp_path: Path) -> None:
    """A Unix socket's address has 108 bytes."""
    state = StateFolder(tmp_path / ("x" * 120) / ".emulator")
    state.prepare()

    try:
        assert len(str(state.run / "litestream.sock")) < 108
        assert state.run.is_dir()
    finally:
        state.remove()
    assert not state.run.exists()


@pytest.mark.parametrize("name", ["template.yaml", ".git", "photo.jpg", "run/pid", "logs/app.log"])
def test_a_folder_with_other_content_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    thing = tmp_path / name
    thing.parent.mkdir(exist_ok=True)
    thing.write_text("theirs")
    state = StateFolder(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(WrongFolder, match="nothing was changed") as refused:
        state.prepare()
    state.remove_sockets()
    state.remove()

    assert refused.value.exit_code == 64
    assert sorted(tmp_path.rglob("*")) == before


def test_root_home_and_the_project_are_never_state_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project = tmp_path / "home", tmp_path / "work" / "project"
    for folder in (home, project):
        folder.mkdir(parents=True)
        (folder / "kept.json").write_text("{}")  # left by an older emulator, which accepted the folder
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)

    for folder in (Path("/"), home, project, project.parent):
        with pytest.raises(WrongFolder):
            StateFolder(folder).prepare()


def test_folders_of_older_emulators_and_with_a_copied_database_are_accepted(tmp_path: Path) -> None:
    for names in (
        ["kept.json", "postroom.db", "notes.txt"],
        ["lock", ".gitignore"],
        ["postroom.db", "postroom.db-wal"],
    ):
        folder = tmp_path / names[-1].strip(".")
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        StateFolder(folder).prepare()


def test_remove_deletes_only_what_the_emulator_makes(state: StateFolder) -> None:
    (state.path / "postroom.db-wal").touch()
    (state.path / ".postroom.db-litestream").mkdir()
    (state.path / "notes.txt").touch()

    assert state.remove() == ["notes.txt"]
    assert state.problem is None, "the removal can be repeated"
    assert sorted(entry.name for entry in state.path.iterdir()) == [".postroom-state", "notes.txt"]
    (state.path / "notes.txt").unlink()
    assert state.remove() == []
    assert not state.path.exists()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "[" * 50_000, '{"tick_secret": 5, "ports": []}', '{"ports": {"s3": "x", "platforms": 70000}}'],
    ids=["empty", "a list", "cut", "nested", "other types", "other ports"],
)
def test_damaged_values_of_the_last_run_are_made_again(state: StateFolder, text: str) -> None:
    (state.path / "kept.json").write_text(text)

    kept = state.kept()

    assert len(kept["tick_secret"]) > 20
    assert kept["ports"] == {}


@pytest.mark.parametrize("text", ["[]", "[" * 50_000], ids=["a list", "nested"])
def test_a_damaged_instance_file_is_one_of_an_emulator_that_starts(state: StateFolder, text: str) -> None:
    FolderLock(state).take()
    state.instance_file.write_text(text)

    assert find_running(state) == {}
