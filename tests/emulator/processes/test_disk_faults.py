"""A disk that is full, broken or slow, under a real database of this process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.emulator.harness import ROOT
from tests.emulator.processes.faulty_disk import FaultyDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    made = FaultyDisk(tmp_path)
    yield made
    made.lift()


def write(conn: apsw.Connection) -> None:
    conn.execute("INSERT INTO meta (key, value) VALUES (hex(randomblob(9)), hex(randomblob(90)))")


@pytest.mark.parametrize(("kind", "error"), [("full", apsw.FullError), ("broken", apsw.IOError)])
def test_writes_fail_until_the_fault_is_lifted_and_reads_go_on(
    disk: FaultyDisk, conn: apsw.Connection, kind: str, error: type[apsw.Error]
) -> None:
    write(conn)
    disk.set(kind=kind)
    with pytest.raises(error):
        write(conn)
    assert conn.execute("SELECT count(*) FROM meta").get
    disk.lift()
    write(conn)
    assert conn.execute("PRAGMA integrity_check").get == "ok"


def test_a_slow_disk_writes_late_and_all_of_it(disk: FaultyDisk, conn: apsw.Connection) -> None:
    disk.set(kind="slow", delay_ms=20)
    begun_s = time.monotonic()
    write(conn)
    assert time.monotonic() - begun_s >= 0.02
    assert conn.execute("PRAGMA integrity_check").get == "ok"


def test_a_full_disk_is_over_after_its_time(
    disk: FaultyDisk, conn: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.set(kind="full", for_ms=60_000)
    with pytest.raises(apsw.FullError):
        write(conn)
    later_ns = time.time_ns() + 60 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    write(conn)
    write(conn)


def test_by_chance_some_writes_fail(disk: FaultyDisk, conn: apsw.Connection) -> None:
    disk.set(kind="full", rate=1)
    with pytest.raises(apsw.FullError):
        write(conn)
    with pytest.raises(ValueError, match="give a rate"):
        disk.set(kind="full", times=3)


WRITES = """
import apsw
try:
    apsw.Connection("new.db").execute("CREATE TABLE t (x)")
except apsw.FullError:
    print("full")
"""


def test_a_program_that_starts_later_on_the_emulators_clock_has_the_same_disk(disk: FaultyDisk, tmp_path: Path) -> None:
    """As the process that takes the place of a function's writer process."""
    disk.set(kind="full")
    (tmp_path / "writes.py").write_text(WRITES)
    done = subprocess.run(
        [sys.executable, "-m", "emulator.processes.on_clock", str(tmp_path / "clock"), "writes"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "POSTROOM_RUN_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "full\n"
