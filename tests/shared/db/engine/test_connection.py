import contextlib
import fcntl
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, savepoint, scalar, transaction
from tests.forks import FORKS, is_at, run_crew
from tests.support import column

_PROCESSES, _TRANSACTIONS = 4, 200
_OPEN = (
    "import sys, pathlib; from shared.db.engine.connection import open_connection, scalar; "
    "print(scalar(open_connection(pathlib.Path(sys.argv[1])), 'PRAGMA journal_mode'))"
)


def test_a_connection_is_durable_and_checks_foreign_keys(db, conn):
    pragmas = ("journal_mode", "synchronous", "foreign_keys")
    assert [scalar(conn, f"PRAGMA {name}") for name in pragmas] == ["wal", 2, 1]


def test_a_process_that_finds_a_new_file_in_use_waits_at_the_gate(tmp_path):
    path, gate = tmp_path / "p.db", tmp_path / "p.db-gate"
    other = apsw.Connection(str(path))
    command = [sys.executable, "-c", _OPEN, str(path)]
    with gate.open("w") as closed:
        fcntl.flock(closed, fcntl.LOCK_EX)
        other.execute("BEGIN IMMEDIATE")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, **pipes)
        while process.poll() is None and not is_at(process.pid, gate):
            time.sleep(0.01)
        other.execute("COMMIT")
    assert process.communicate(timeout=180) == ("wal\n", "")
    assert scalar(open_connection(path), "PRAGMA journal_mode") == "wal"


def test_a_reading_connection_can_not_write(db, conn):
    reader = open_connection(db, readonly=True)
    with pytest.raises(apsw.ReadOnlyError):
        rows(reader, "UPDATE meta SET value = '1'")


def test_an_exception_rolls_everything_back(conn):
    def half():
        with transaction(conn):
            meta.put(conn, "half", "done")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert not conn.in_transaction
    assert meta.get(conn, "half") is None


def test_a_failed_commit_rolls_everything_back_and_the_next_works(conn):
    def dangling():
        with transaction(conn):
            rows(conn, "PRAGMA defer_foreign_keys = ON")
            rows(conn, "INSERT INTO wirings (chat_id, agent, created_at) VALUES (999, 'assistant', 1)")

    with pytest.raises(apsw.ConstraintError):
        dangling()
    with transaction(conn):
        meta.put(conn, "after", "works")
    assert column(conn, "SELECT count(*) FROM wirings") == [0]
    assert meta.get(conn, "after") == "works"


def test_the_error_that_ended_the_transaction_is_raised(conn):
    """A full disk makes SQLite roll back by itself; 'cannot rollback' must not hide that error."""

    def full():
        with transaction(conn):
            rows(conn, "ROLLBACK")
            raise apsw.FullError("database or disk is full")

    with pytest.raises(apsw.FullError):
        full()


@pytest.mark.parametrize("outer", [transaction, contextlib.nullcontext])
def test_so_is_the_error_that_ended_a_savepoint(conn, outer):
    def full():
        with outer(conn), savepoint(conn):
            rows(conn, "ROLLBACK")
            raise apsw.FullError("database or disk is full")

    with pytest.raises(apsw.FullError):
        full()
    assert not conn.in_transaction


def test_a_savepoint_without_a_transaction_is_one(conn, other):
    with savepoint(conn):
        assert meta.get(conn, "half") is None
        with transaction(other):
            meta.put(other, "half", "done")
        assert meta.get(conn, "half") is None, "its reads are of one instant"
    assert meta.get(conn, "half") == "done"


def test_a_transaction_inside_a_transaction_is_refused_and_does_not_hang(conn):
    def nested():
        with transaction(conn), transaction(conn):
            pass

    with pytest.raises(RuntimeError, match="inside a transaction"):
        nested()
    assert not conn.in_transaction


def _write(path, name):
    conn = open_connection(path)
    for number in range(_TRANSACTIONS):
        with transaction(conn):
            rows(
                conn,
                "INSERT INTO events (type, data, created_at) VALUES (:name, :data, 1)",
                {"name": name, "data": number},
            )
            count = int(meta.get(conn, "count") or 0)
            meta.put(conn, "count", str(count + 1))


def test_four_processes_write_at_once_and_none_is_refused(db, conn):
    """Each process reads and writes in one transaction; a lost update would show in the count."""
    crew = [FORKS.Process(target=_write, args=(db, f"p{number}")) for number in range(_PROCESSES)]
    assert run_crew(crew) == [0] * _PROCESSES
    assert meta.get(conn, "count") == str(_PROCESSES * _TRANSACTIONS)
    assert column(conn, "SELECT count(*) FROM events GROUP BY type") == [_TRANSACTIONS] * _PROCESSES


def test_writers_queue_at_the_gate_in_front_of_the_database(db):
    """SQLite's own lock has no queue, so some writers starve."""
    conn = open_connection(db)
    waited, done = threading.Event(), threading.Event()

    def write():
        own = open_connection(db)
        waited.set()
        with transaction(own):
            meta.put(own, "a", "x")
        done.set()

    with open(f"{db}-gate", "w") as gate:  # noqa: PTH123
        fcntl.flock(gate, fcntl.LOCK_EX)
        thread = threading.Thread(target=write)
        thread.start()
        assert waited.wait(60)
        assert not done.wait(0.05)
        assert meta.get(conn, "a") is None
    assert done.wait(60)
    thread.join()
    assert meta.get(conn, "a") == "x"


_HOLD = """
import sys, time
from pathlib import Path
from shared.db.engine.connection import open_connection, rows, transaction
conn = open_connection(Path(sys.argv[1]))
with transaction(conn):
    rows(conn, "INSERT INTO meta (key, value) VALUES ('half', 'done')")
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_writer_killed_in_its_transaction_frees_the_gate_and_leaves_nothing(db, conn):
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(db)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        with transaction(conn):
            assert meta.get(conn, "half") is None


class Interrupted:
    """Ctrl-C during the wait for the lock."""

    def __call__(self, calls):
        raise KeyboardInterrupt


def test_an_interrupt_while_waiting_for_the_lock_leaves_the_gate_open(conn, other):
    rows(other, "BEGIN IMMEDIATE")  # past the gate, as Litestream does
    conn.set_busy_handler(Interrupted())
    with pytest.raises(KeyboardInterrupt), transaction(conn):
        pass
    rows(other, "COMMIT")
    with transaction(other):
        meta.put(other, "after", "works")
    with transaction(conn):
        meta.put(conn, "and", "again")
    assert (meta.get(other, "after"), meta.get(other, "and")) == ("works", "again")


def test_an_interrupt_at_the_gate_leaves_it_as_it_was(db, conn):
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    def interrupted():
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with transaction(conn):
            pass

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with open(f"{db}-gate", "w") as gate:  # noqa: PTH123
            fcntl.flock(gate, fcntl.LOCK_EX)
            with pytest.raises(Interrupt):
                interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
    with transaction(conn):
        meta.put(conn, "after", "works")
    assert meta.get(conn, "after") == "works"


@pytest.mark.parametrize("begin", [transaction, savepoint])
def test_a_vetoed_commit_rolls_everything_back(conn, begin):
    def vetoed():
        conn.set_commit_hook(lambda: True)
        with begin(conn):
            meta.put(conn, "half", "done")

    with pytest.raises(apsw.ConstraintError):
        vetoed()
    conn.set_commit_hook(None)
    assert not conn.in_transaction
    with transaction(conn):
        assert meta.get(conn, "half") is None


def test_a_full_disk_in_a_statement_rolls_everything_back_and_opens_the_gate(conn, other):
    def full():
        with transaction(conn):
            meta.put(conn, "half", "done")
            rows(conn, "PRAGMA max_page_count = 1")
            rows(conn, "INSERT INTO meta (key, value) VALUES ('big', hex(randomblob(500000)))")

    with pytest.raises(apsw.FullError):
        full()
    with transaction(other):
        assert meta.get(other, "half") is None


_CHECKPOINTS = """
import contextlib
import fcntl, sys, time
with open(sys.argv[1], "r+b") as shm:
    fcntl.lockf(shm, fcntl.LOCK_EX, 1, 121)  # SQLite's lock of a process that checkpoints
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_commit_succeeds_while_another_process_checkpoints(db, conn):
    """Our own checkpoint of a long WAL then fails; raised as the commit's error, it would hide committed rows."""
    insert = "INSERT INTO meta (key, value) VALUES (:key, hex(randomblob(1000000)))"
    with transaction(conn):
        meta.put(conn, "before", "x")
    command = [sys.executable, "-c", _CHECKPOINTS, f"{db}-shm"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        for number in range(25):  # 50 MB
            with transaction(conn):
                rows(conn, insert, {"key": f"k{number}"})
        holder.kill()
    assert Path(f"{db}-wal").stat().st_size > 10_000 * 4096
    assert column(conn, "SELECT count(*) FROM meta WHERE key GLOB 'k*'") == [25]
