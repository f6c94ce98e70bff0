"""The faults of one emulator, and what its other processes learn of them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from emulator.base import faults
from emulator.base.faults import Fault, FaultBook
from shared.conversation.alerts import faults_by_hand
from shared.core.time import clock

# The signal is blocked but while a process waits for it: one that came just before the wait would be lost.
LISTENER = """
import os, signal
signal.signal(signal.SIGUSR2, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
os.fork()
os.write(1, b"%d\\n" % os.getpid())
signal.sigwait({signal.SIGUSR2})
os.write(1, b"%d\\n" % os.getpid())
signal.pause()
"""


def listed(run: Path) -> list[str]:
    return [each["target"] for each in faults_by_hand.read(faults_by_hand.path_in(run), now_ms=clock.machine_ms())]


def test_the_file_has_what_stands(tmp_path: Path) -> None:
    book = FaultBook(tmp_path, list)
    book.of["bucket"].add(Fault.parse("bucket", {"kind": "drop"}))
    book.of["telegram"].add(Fault.parse("telegram", {"kind": "drop"}))
    assert listed(tmp_path) == ["telegram", "bucket"]
    book.of["telegram"].take("getMe")
    assert listed(tmp_path) == ["bucket"], "it is used up"
    book.of["bucket"].lift()
    assert listed(tmp_path) == []


def test_what_another_process_took_is_less_here_too(tmp_path: Path) -> None:
    book = FaultBook(tmp_path, list)
    fault = book.of["bucket"].add(Fault.parse("bucket", {"kind": "drop", "times": 2}))
    book.learn("bucket", fault.id, 1)
    assert [each.times for each in book.standing()] == [1]
    (written,) = faults_by_hand.read(faults_by_hand.path_in(tmp_path), now_ms=clock.machine_ms())
    assert written["times"] == 1, "the next process begins with it"
    book.learn("bucket", fault.id, 0)
    assert book.standing() == []
    assert listed(tmp_path) == []


def test_the_faults_of_a_killed_emulator_are_forgotten(tmp_path: Path) -> None:
    FaultBook(tmp_path, list).of["bucket"].add(Fault.parse("bucket", {"kind": "drop"}))
    faults.forget(tmp_path)
    faults.forget(tmp_path)
    assert listed(tmp_path) == []


def test_a_reader_and_its_children_hear_of_a_change_and_no_other_process_ends(tmp_path: Path) -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", LISTENER], stdout=subprocess.PIPE, text=True, process_group=0
        ) as listener,
        subprocess.Popen(["sleep", "60"]) as deaf,
    ):
        try:
            assert listener.stdout is not None
            ready = {int(listener.stdout.readline()) for _ in range(2)}
            assert listener.pid in ready
            assert len(ready) == 2
            book = FaultBook(tmp_path, lambda: [listener.pid, deaf.pid])
            book.of["bucket"].add(Fault.parse("bucket", {"kind": "drop"}))
            assert {int(listener.stdout.readline()) for _ in range(2)} == ready
            assert deaf.poll() is None
        finally:
            os.killpg(listener.pid, signal.SIGKILL)  # its child too
            deaf.kill()
    assert json.loads(faults_by_hand.path_in(tmp_path).read_text())[0]["kind"] == "drop"
