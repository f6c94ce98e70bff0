"""The folder is one instance's; who comes second is told by whom it is held."""

import json
import stat
from pathlib import Path

import pytest

from emulator.failures import Taken
from emulator.state import Lock, StateFolder, describe, running, write_private


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / ".emulator")
    folder.prepare()
    return folder


def test_a_second_lock_is_refused_with_who_where_and_what_to_do(state: StateFolder) -> None:
    first, second = Lock(state), Lock(state)
    first.take()
    write_private(
        state.instance_file,
        json.dumps(
            {"pid": 41802, "started": "2026-11-21T11:58:03+00:00", "urls": {"gateway": "http://127.0.0.1:8081"}}
        ),
    )

    with pytest.raises(Taken) as refused:
        second.take()

    for part in ("emulator[41802]", "11:58 UTC", "http://127.0.0.1:8081", "emulator status", "--ephemeral"):
        assert part in str(refused.value)
    assert refused.value.exit_code == 73


def test_a_lock_can_be_taken_after_its_release(state: StateFolder) -> None:
    lock = Lock(state)
    lock.take()
    lock.release()

    Lock(state).take()


def test_what_a_killed_instance_left_behind_is_not_believed(state: StateFolder) -> None:
    """The lock decides, the file only describes."""
    write_private(state.instance_file, json.dumps({"pid": 1, "started": "2026-01-01T00:00:00+00:00", "urls": {}}))

    assert running(state) is None


def test_one_that_is_just_starting_is_running_but_unknown(state: StateFolder) -> None:
    Lock(state).take()

    assert running(state) == {}
    assert "just starts" in describe(state)


def test_the_folder_is_private_and_ignored_by_git(state: StateFolder) -> None:
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    assert (state.path / ".gitignore").read_text() == "*\n"


def test_secret_and_ports_stay_the_same(state: StateFolder) -> None:
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
