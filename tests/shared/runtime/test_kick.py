import select
import signal
import subprocess
import sys

import pytest

from shared.core.errors import ConfigInvalid
from shared.runtime.kick import Kicker, Listener


@pytest.fixture
def kicker(tmp_path):
    kicker = Kicker(tmp_path)
    yield kicker
    kicker.close()


def is_kicked(listener):
    return bool(select.select([listener.fileno()], [], [], 0)[0])


def test_a_kick_wakes_its_listener_and_no_other(tmp_path, kicker):
    dispatch, deliver = Listener(tmp_path, "dispatch"), Listener(tmp_path, "deliver")
    kicker.kick("dispatch")
    assert (is_kicked(dispatch), is_kicked(deliver)) == (True, False)
    dispatch.close()
    deliver.close()


def test_many_kicks_wake_once(tmp_path, kicker):
    listener = Listener(tmp_path, "dispatch")
    for _ in range(3):
        kicker.kick("dispatch")
    listener.drain()
    assert not is_kicked(listener)
    listener.drain()
    listener.close()


def test_a_newer_listener_takes_over_and_survives_the_end_of_the_older(tmp_path, kicker):
    older = Listener(tmp_path, "dispatch")
    newer = Listener(tmp_path, "dispatch")
    kicker.kick("dispatch")
    assert (is_kicked(older), is_kicked(newer)) == (False, True)
    newer.drain()
    older.close()
    kicker.kick("dispatch")
    assert is_kicked(newer)
    newer.close()
    assert list(tmp_path.iterdir()) == []


_LISTEN = """
import sys, time
from pathlib import Path
from shared.runtime.kick import Listener
listener = Listener(Path(sys.argv[1]), "dispatch")
print("ready", flush=True)
time.sleep(60)
"""


def test_a_dead_listener_is_not_woken_and_can_be_replaced(tmp_path, kicker):
    command = [sys.executable, "-c", _LISTEN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / "dispatch.sock").exists()
    kicker.kick("dispatch")
    follower = Listener(tmp_path, "dispatch")
    kicker.kick("dispatch")
    assert is_kicked(follower)
    follower.close()


def test_a_missing_listener_is_no_error(tmp_path, kicker):
    kicker.kick("dispatch")
    assert list(tmp_path.iterdir()) == []


def test_a_full_queue_is_no_error_because_a_wake_up_is_on_its_way(tmp_path, kicker):
    listener = Listener(tmp_path, "dispatch")
    for _ in range(10_000):
        kicker.kick("dispatch")
    assert is_kicked(listener)
    listener.close()


def test_a_kick_never_fails_because_work_is_already_committed(tmp_path, kicker):
    (tmp_path / "dispatch.sock").write_text("not a socket")
    kicker.kick("dispatch")
    kicker.kick("x" * 300)
    assert (tmp_path / "dispatch.sock").read_text() == "not a socket"


@pytest.mark.parametrize("make", [Kicker, lambda folder: Listener(folder, "api")], ids=["kicker", "listener"])
def test_a_path_too_long_for_sockets_is_refused_with_a_sentence(tmp_path, make):
    deep = tmp_path / ("d" * 100)
    with pytest.raises(ConfigInvalid, match=r"too long for Unix sockets.*set POSTROOM_RUN_DIR to a shorter path"):
        make(deep)
    assert not deep.exists()


def test_only_the_owner_may_kick(tmp_path):
    folder = tmp_path / "run"
    listener = Listener(folder, "dispatch")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "dispatch.sock").stat().st_mode & 0o777 == 0o600
    listener.close()
