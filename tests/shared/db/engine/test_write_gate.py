"""A process that dies in a commit leaves a mark, and the next writer waits for the end of the Litestream beside it."""

import resource
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from shared.core.errors import InUse
from shared.db.engine import checkpoints, meta, write_gate
from shared.db.engine.connection import WouldWait, open_connection, rows, scalar, transaction

ROOT = Path(__file__).parents[4]
IN_A_COMMIT = """
import sys, time
import apsw
from pathlib import Path
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction

class File(apsw.VFSFile):
    def __init__(self, name, flags):
        super().__init__("unix", name, flags)
        self.is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
    def xSync(self, flags):
        if self.is_log and is_armed:
            print("in the commit", flush=True)
            sys.stdin.read()
        return super().xSync(flags)

class Slow(apsw.VFS):
    def __init__(self):
        super().__init__("slow", "unix", makedefault=True)
    def xOpen(self, name, flags):
        return File(name, flags)

is_armed, slow = False, Slow()
conn = open_connection(Path(sys.argv[1]))
is_armed = True
with transaction(conn):
    meta.put(conn, "never", "was")
"""


class Victim:
    """A process inside its commit: its pages are in the log, and no other connection knows of them."""

    def __init__(self, process):
        self._process = process
        assert process.stdout.readline() == "in the commit\n"

    def die(self):
        self._process.kill()
        self._process.wait()

    def end(self):
        """Let it go on."""
        self._process.stdin.close()
        assert self._process.wait() == 0


@contextmanager
def in_a_commit(db):
    """A victim that is killed at the end of the test."""
    command = [sys.executable, "-c", IN_A_COMMIT, str(db)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield Victim(process)
        finally:
            process.kill()


@pytest.fixture
def victim(db, conn):
    with in_a_commit(db) as found:
        yield found


def put(conn, value):
    with transaction(conn):
        meta.put(conn, "heartbeat_at", value)


def test_the_next_writer_reports_a_death_in_a_commit_while_litestream_runs(db, conn, victim):
    victim.die()
    right = checkpoints.lock(db)
    assert right.try_acquire()  # as Litestream does
    assert not write_gate.is_torn(db)

    other = open_connection(db)
    writer = threading.Thread(target=put, args=(other, "after"))
    writer.start()
    while not write_gate.is_torn(db):
        assert writer.is_alive()
    assert meta.get(conn, "heartbeat_at") is None
    right.release()
    writer.join()
    other.close()

    assert meta.get(conn, "heartbeat_at") == "after"
    assert meta.get(conn, "never") is None
    assert not write_gate.is_torn(db)


def test_without_litestream_no_writer_waits_and_no_mark_stays(db, conn, victim):
    victim.die()
    put(conn, "after")
    assert not write_gate.is_torn(db)
    assert not write_gate.check_torn(db)


def test_a_writer_that_may_not_wait_does_not_enter_behind_a_death_in_a_commit(db, conn, victim):
    with pytest.raises(WouldWait), transaction(conn, waits=False):
        pytest.fail("the victim is inside")
    victim.die()
    with pytest.raises(WouldWait), transaction(conn, waits=False):
        pytest.fail("Litestream may send too little")
    put(conn, "after")  # which waits for the end of Litestream
    with transaction(conn, waits=False):
        meta.put(conn, "next", "x")
    assert not write_gate.is_torn(db)


def test_the_supervisor_finds_a_mark_before_any_writer_comes(db, conn, victim):
    assert not write_gate.check_torn(db)  # it lives
    victim.die()
    assert write_gate.check_torn(db)
    assert write_gate.is_torn(db)
    with write_gate.reset_marks(db, 0):
        pass
    assert not write_gate.check_torn(db)


def test_waiting_for_a_long_transaction_ends(db, conn, victim):
    with pytest.raises(InUse, match="inside a transaction"), write_gate.reset_marks(db, 0.1):
        pass


def test_a_finished_commit_leaves_no_mark(db, conn, victim):
    victim.end()
    assert meta.get(conn, "never") == "was"
    assert not write_gate.check_torn(db)


def test_a_writer_stops_waiting_for_litestream_at_last_and_the_mark_stays(db, conn, victim):
    victim.die()
    right = checkpoints.lock(db)
    assert right.try_acquire()
    put(conn, "after")  # its supervisor is frozen, say
    assert meta.get(conn, "heartbeat_at") == "after"
    assert write_gate.is_torn(db)
    right.release()


@pytest.mark.parametrize(("error", "is_marked"), [(apsw.IOError, True), (apsw.FullError, False)])
def test_a_commit_that_the_disk_refused_counts_as_a_death_in_a_commit(db, error, is_marked):
    """A commit without room for its pages is never whole in the log; one without the disk's final yes is."""

    def refuse(statement):
        raise error(statement)

    here = write_gate.WriteGate(db)
    here.enter()
    with pytest.raises(error, match="COMMIT"):
        here.commit(refuse)
    here.leave()
    assert write_gate.check_torn(db) == is_marked
    here.close()


def test_on_a_full_disk_a_commit_without_a_change_succeeds(db, conn):
    """A function's start does that, and a function must start on a full disk too."""
    with transaction(conn):
        meta.put(conn, "heartbeat_at", "before")
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, size[1]))
    try:
        with transaction(conn):
            assert meta.get(conn, "heartbeat_at") == "before"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
    put(conn, "after")
    assert not write_gate.check_torn(db)


def test_a_refused_or_rolled_back_transaction_leaves_no_mark(db, conn):
    with transaction(conn):
        rows(conn, "CREATE TABLE late (id REFERENCES agents DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(conn, "INSERT INTO late VALUES ('nobody')")
    with pytest.raises(KeyError), transaction(conn):
        raise KeyError
    assert scalar(conn, "SELECT count(*) FROM late") == 0
    assert not write_gate.check_torn(db)


def test_without_a_gate_file_no_death_is_reported(tmp_path):
    assert not write_gate.check_torn(tmp_path / "none.db")
    assert not write_gate.is_torn(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []
