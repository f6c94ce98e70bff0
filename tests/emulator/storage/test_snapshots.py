"""Snapshots of a state folder, over real databases."""

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.base.clock_page import ClockPage
from emulator.base.errors import AlreadyInUse, DoesNotExist, EmulatorError, InvalidInput, NotADatabase, WrongFolder
from emulator.base.state import FolderLock, StateFolder
from emulator.cli.app import app
from emulator.storage import snapshots
from shared.db.engine.connection import open_connection
from shared.roster.new_database import prepare_database


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    """A folder with a database, a bucket and an agent's file."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    prepare_database(state.database, timezone="UTC", agents_file=None)
    (state.agents / "note.txt").write_text("first")
    (state.s3 / "object").write_text("of the first history")
    return state


ADDED = "INSERT INTO tool_servers VALUES (?, '[]', '{}', 1, 1)"


def write(state: StateFolder, name: str) -> None:
    open_connection(state.database).execute(ADDED, (name,))


def names(state: StateFolder) -> list[str]:
    return [name for (name,) in open_connection(state.database, readonly=True).execute("SELECT name FROM tool_servers")]


def test_a_restore_brings_back_rows_and_files_and_empties_the_bucket(state: StateFolder) -> None:
    write(state, "before")
    taken = snapshots.take(state, "good")
    write(state, "after")
    (state.agents / "note.txt").write_text("second")

    restored = snapshots.restore(state, "good")

    assert restored == taken == snapshots.find_all(state)[0]
    assert names(state) == ["before"]
    assert (state.agents / "note.txt").read_text() == "first"
    assert not state.s3.exists()


def test_the_clock_of_the_rows_goes_with_them(state: StateFolder) -> None:
    snapshots.take(state, "real")
    ClockPage(state.clock).set_to(1_900_000_000_000)
    snapshots.take(state, "later")

    snapshots.restore(state, "real")
    assert not state.clock.exists()
    snapshots.restore(state, "later")
    assert abs(ClockPage(state.clock).now_ms() - 1_900_000_000_000) < 60_000


def test_a_snapshot_has_the_rows_that_only_the_log_of_the_database_has(state: StateFolder) -> None:
    """An emulator runs meanwhile: its newest rows are in the write-ahead log."""
    conn = open_connection(state.database)
    conn.execute(ADDED, ("in the log",))

    snapshots.take(state, "running")

    conn.close()
    snapshots.restore(state, "running")
    assert names(state) == ["in the log"]


def test_a_folder_that_a_team_keeps_begins_another_state(state: StateFolder, tmp_path: Path) -> None:
    write(state, "ours")
    snapshots.take(state, str(tmp_path / "fixture"))
    other = StateFolder(tmp_path / "other")
    arguments = ["data", "seed", f"{tmp_path}/fixture", "--state", str(other.path), "--json"]

    seeded = CliRunner().invoke(app, arguments)
    again = CliRunner().invoke(app, arguments)

    assert json.loads(seeded.stdout)["restored"]["name"] == "fixture"
    assert names(other) == ["ours"]
    assert json.loads(again.stdout) == {"restored": None}


def test_a_second_snapshot_of_a_name_replaces_the_first(state: StateFolder) -> None:
    snapshots.take(state, "good")
    write(state, "later")
    snapshots.take(state, "good")
    snapshots.restore(state, "good")

    assert [each.name for each in snapshots.find_all(state)] == ["good"]
    assert names(state) == ["later"]


def test_a_reset_keeps_snapshots(state: StateFolder) -> None:
    snapshots.take(state, "good")

    done = CliRunner().invoke(app, ["data", "reset", "--yes", "--state", str(state.path)])

    assert "the snapshots in" in done.stdout
    assert not state.database.exists()
    assert [each.name for each in snapshots.find_all(state)] == ["good"]


def test_a_restore_asks_first_where_there_is_something_to_lose(state: StateFolder) -> None:
    write(state, "kept")
    snapshots.take(state, "good")
    write(state, "later")

    asked = CliRunner().invoke(app, ["data", "restore", "good", "--state", str(state.path)])
    told = CliRunner().invoke(app, ["data", "restore", "good", "--yes", "--state", str(state.path)])

    assert (asked.exit_code, "confirm with --yes" in asked.stderr) == (64, True)
    assert (told.exit_code, names(state)) == (0, ["kept"])


def test_a_database_of_a_deployment_is_not_replaced(state: StateFolder, tmp_path: Path) -> None:
    """Its functions take no lock of the emulator's, and would go on with a file that has no name."""
    snapshots.take(state, str(tmp_path / "fixture"))
    deployed = StateFolder(tmp_path / "srv")
    deployed.path.mkdir()
    prepare_database(deployed.database, timezone="UTC", agents_file=None)
    write(deployed, "live")

    with pytest.raises(WrongFolder, match="a database that no emulator made"):
        snapshots.restore(deployed, str(tmp_path / "fixture"))

    assert names(deployed) == ["live"]


def test_a_seed_leaves_a_bucket_alone_that_has_lost_its_database(state: StateFolder, tmp_path: Path) -> None:
    snapshots.take(state, str(tmp_path / "fixture"))
    for file in state.path.glob("postroom.db*"):
        file.unlink()

    done = CliRunner().invoke(app, ["data", "seed", f"{tmp_path}/fixture", "--state", str(state.path), "--json"])

    assert json.loads(done.stdout) == {"restored": None}
    assert (state.s3 / "object").exists()


def listen_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a socket there; its whole path may be longer than an address."""
    with monkeypatch.context() as inside, socket.socket(socket.AF_UNIX) as listening:
        inside.chdir(folder)
        listening.bind("program.sock")


def test_a_snapshot_leaves_its_neighbours_alone_and_takes_what_can_be_copied(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots.take(state, "a.new")
    listen_in(state.agents, monkeypatch)
    snapshots.take(state, "a")

    assert {each.name for each in snapshots.find_all(state)} == {"a", "a.new"}
    assert sorted(each.name for each in state.snapshots.iterdir()) == ["a", "a.new"]
    assert [each.name for each in (state.snapshots / "a" / "agents").iterdir()] == ["note.txt"]


def test_a_snapshot_that_cannot_be_copied_changes_nothing(state: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: the copy is whole before anything is deleted."""
    write(state, "kept")
    snapshots.take(state, "good")
    listen_in(state.snapshots / "good" / "agents", monkeypatch)  # which nobody can copy
    write(state, "later")

    with pytest.raises(EmulatorError, match="nothing was changed"):
        snapshots.restore(state, "good")

    assert names(state) == ["kept", "later"]
    assert (state.s3 / "object").exists()
    assert not (state.path / "restored.new").exists()


def test_nothing_is_restored_beside_a_running_emulator(state: StateFolder) -> None:
    snapshots.take(state, "good")
    FolderLock(state).take()

    with pytest.raises(AlreadyInUse, match="stop the emulator first"):
        snapshots.restore(state, "good")


def test_what_is_no_snapshot_changes_nothing(state: StateFolder, tmp_path: Path) -> None:
    write(state, "kept")
    (tmp_path / "mine").mkdir()
    with pytest.raises(DoesNotExist, match="is no snapshot"):
        snapshots.restore(state, "unknown")
    with pytest.raises(InvalidInput, match="is no snapshot: choose another name"):
        snapshots.take(state, str(tmp_path / "mine"))

    assert names(state) == ["kept"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda file: file.write_bytes(b"no database"), "is not a database"),
        (
            lambda file: open_connection(file).execute("UPDATE meta SET value = '9999' WHERE key = 'schema_version'"),
            "of a later release",
        ),
    ],
    ids=["damaged", "newer"],
)
def test_a_snapshot_that_cannot_be_used_is_refused(state: StateFolder, damage: object, says: str) -> None:
    write(state, "kept")
    snapshots.take(state, "bad")
    assert callable(damage)
    damage(state.snapshots / "bad" / "postroom.db")

    with pytest.raises(NotADatabase, match=says):
        snapshots.restore(state, "bad")

    assert names(state) == ["kept"]
