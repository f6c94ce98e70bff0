"""What is ended with a run, also in its first moments: its own processes, and none of a person who looks on."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from emulator.proving.child import Child, end_orphans

_WAITS = [sys.executable, "-S", "-c", "input()"]
_LIMIT_S = 20


@pytest.fixture
def started() -> Iterator[ExitStack]:
    """Ends what a test starts."""
    with ExitStack() as ends:
        yield ends


def start(ends: ExitStack, *argv: str, **environment: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(argv, env={"PATH": "/usr/bin:/bin", **environment}, stdin=subprocess.PIPE)
    ends.callback(process.communicate)
    ends.callback(process.kill)
    arguments = Path(f"/proc/{process.pid}/cmdline")
    while not arguments.read_bytes():  # for a moment after Popen the kernel does not show them yet
        pass
    return process


def test_processes_of_the_run_end_and_those_of_a_person_live(tmp_path: Path, started: ExitStack) -> None:
    log = tmp_path / "host/ingest.log"
    log.parent.mkdir()
    log.touch()
    of_the_run = [
        start(started, *_WAITS, str(tmp_path / "record")),
        start(started, *_WAITS, POSTROOM_DB=str(tmp_path / "host/p.db")),
    ]
    of_a_person = [
        start(started, "tail", "-f", str(log)),
        start(started, *_WAITS, PWD=str(log.parent), OLDPWD=str(log.parent)),
        start(started, *_WAITS, POSTROOM_DB=f"{tmp_path}-other/p.db"),
    ]
    end_orphans(tmp_path)
    for process in of_a_person:
        process.terminate()
    assert [process.wait(_LIMIT_S) for process in of_the_run] == [-SIGKILL] * 2
    assert [process.wait(_LIMIT_S) for process in of_a_person] == [-SIGTERM] * 3


def test_a_child_whose_start_was_interrupted_is_ended(tmp_path: Path) -> None:
    child = Child("x", [sys.executable, "-S", "-c", "import time; time.sleep(600)"], {}, tmp_path / "x.log")
    child._process = child._spawn()
    child._restarter = threading.Thread()  # Ctrl-C: it had no time to begin
    assert child.stop(SIGKILL) == -SIGKILL
