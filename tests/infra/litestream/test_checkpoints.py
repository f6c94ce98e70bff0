"""Two ways in which Litestream silently loses commits: another process's checkpoint, and a death in a commit."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from infra.litestream.supervisor import LitestreamSupervisor
from infra.litestream.wal import begin_log
from shared.core.errors import InUse, NotReplicated
from shared.core.settings import Settings
from shared.db.engine import checkpoints, meta
from shared.db.engine.connection import open_connection, rows, scalar, transaction
from shared.db.replica.sync import Replication, sync
from tests.emulator.harness import descendants
from tests.infra.litestream.supervised import lease_of
from tests.infra.litestream.test_litestream import PATIENCE_S, command
from tests.infra.processes import ROOT, Process, until
from tests.liveness import freeze, is_alive
from tests.shared.db.engine.test_write_gate import in_a_commit
from tests.support import make_agent

MORE_THAN_LITESTREAM_LEAVES = 5_000_000  # bytes
MORE_THAN_WE_LEAVE = 45_000_000


def grow(conn, size):
    """Make the log longer by this many bytes, in one commit."""
    with transaction(conn):
        rows(
            conn,
            "INSERT INTO events (type, data, created_at) VALUES ('x', json_object('x', hex(zeroblob(:half))), 1)",
            {"half": size // 2},
        )


def state(conn):
    """The pages in the log, and how many of them are in the database."""
    return rows(conn, "PRAGMA wal_checkpoint(NOOP)")[0][1:]


class Running:
    """The supervisor and its Litestream, which has checkpointed in a request over its socket, and can be stopped."""

    def __init__(self, folder, db):
        self._db = db
        self.environment = {
            "POSTROOM_DB": str(db),
            "POSTROOM_REPLICA_URL": f"file://{folder}/replica",
            "POSTROOM_LITESTREAM_SOCKET": str(folder / "litestream.sock"),
        }
        self.supervisor = Process(sys.executable, *command("litestream")[1:], environment=self.environment)

    def begin(self, conn):
        """Wait until it has checkpointed within our request, not in its own round, and has read some pages since."""
        self.supervisor.wait_for("replicate.begun")
        (self.pid,) = descendants(self.supervisor.pid)[1:]
        snapshots = Path(self.environment["POSTROOM_REPLICA_URL"].removeprefix("file://"))
        until(lambda: [*snapshots.glob("**/ltx/9/*.ltx")], "Litestream makes no snapshot")  # it would mend what is lost
        grow(conn, MORE_THAN_LITESTREAM_LEAVES)
        for _ in range(3):
            self.sync()
            grow(conn, 1000)
        self.sync()

    def sync(self):
        """Sync over the control socket, as functions do that wait for the replica."""
        asyncio.run(sync(Path(self.environment["POSTROOM_LITESTREAM_SOCKET"]), self._db, PATIENCE_S))

    def acknowledge(self):
        """Wait for the commits so far, as ingest does, and ask again until the answer is a yes."""
        settings = {
            "db": self._db,
            "litestream_socket": Path(self.environment["POSTROOM_LITESTREAM_SOCKET"]),
            "durability": "replicated",
        }

        async def confirm():
            replication = Replication(Settings.model_construct(**settings), ())
            try:
                while True:
                    with contextlib.suppress(NotReplicated):
                        return await replication.confirm("api")
                    await asyncio.sleep(0.02)
            finally:
                await replication.close()

        asyncio.run(asyncio.wait_for(confirm(), PATIENCE_S))

    def restored(self, target):
        """A copy of what the bucket has."""
        command = [sys.executable, "-m", "infra.restore", "--output", str(target)]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **self.environment}, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout
        return target

    def lose(self):
        """Kill -9 the supervisor and its Litestream."""
        pids = descendants(self.supervisor.pid)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it ends with its supervisor
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(is_alive, pids[1:])), "Litestream goes on without its supervisor")

    def freeze(self):
        freeze(self.pid)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)


@pytest.fixture
def running(conn, db, tmp_path):
    found = Running(tmp_path, db)
    try:
        found.begin(conn)
        yield found
    finally:
        found.supervisor.close()


def relieve(conn):
    grow(conn, MORE_THAN_LITESTREAM_LEAVES)
    make_agent(conn, "kept")
    checkpoints.checkpoint_if_long(conn)


def exceed(conn):
    make_agent(conn, "kept")
    grow(conn, MORE_THAN_WE_LEAVE)


@pytest.mark.parametrize("checkpoint", [relieve, exceed])
def test_commits_that_litestream_had_not_read_are_restored(running, conn, db, tmp_path, checkpoint):
    running.freeze()
    checkpoint(conn)
    with transaction(conn):  # the writer after a checkpoint begins the log again
        meta.put(conn, "heartbeat_at", "1")
    running.go_on()
    running.sync()
    assert running.supervisor.stop(signal.SIGTERM)[0] == 0

    other = open_connection(running.restored(tmp_path / "back.db"))
    assert scalar(other, "SELECT count(*) FROM agents WHERE id = 'kept'") == 1
    assert scalar(other, "SELECT count(*) FROM events") == scalar(conn, "SELECT count(*) FROM events")
    other.close()


def test_messages_acknowledged_around_a_death_in_a_commit_are_restored(running, conn, db, tmp_path):
    grow(conn, MORE_THAN_LITESTREAM_LEAVES)
    running.sync()
    with transaction(conn):  # from now on the file need not become longer: Litestream finds all pages of a copy in it
        rows(conn, "DELETE FROM events")
    for number in range(20):  # they stand in the log only
        make_agent(conn, f"before-{number}")
        running.acknowledge()
    with in_a_commit(db) as victim:
        running.sync()  # a function waits for the replica meanwhile
        victim.die()
    for number in range(3):
        with transaction(conn):  # on other pages
            meta.put(conn, f"after-{number}", "")
        running.acknowledge()
    running.lose()

    other = open_connection(running.restored(tmp_path / "back.db"))
    for query in ("SELECT id FROM agents ORDER BY id", "SELECT key FROM meta ORDER BY key"):
        assert rows(other, query) == rows(conn, query)
    assert rows(other, "PRAGMA integrity_check") == [("ok",)]
    other.close()


def test_only_litestream_checkpoints_while_it_runs_and_writers_do_afterwards(running, conn):
    running.freeze()
    grow(conn, MORE_THAN_WE_LEAVE)
    checkpoints.checkpoint_if_long(conn)
    assert state(conn)[1] < checkpoints.LITESTREAM_PAGES

    running.lose()
    until(
        lambda: not checkpoints.checkpoint_if_long(conn) and state(conn)[0] == state(conn)[1],
        "a writer checkpoints the log",
    )


def test_no_second_litestream_starts_beside_a_running_one(conn, db, tmp_path):
    right = checkpoints.lock(db)
    assert right.try_acquire()
    touched = tmp_path / "touched"

    async def start():
        supervisor = LitestreamSupervisor(
            ["touch", str(touched)], replica=f"file://{tmp_path}/replica", environment={"PATH": os.environ["PATH"]},
            database=db, control=tmp_path / "l.sock", lease=lease_of(db), report=lambda *_, **__: None,
            checkpoint_limit_s=0.05,
        )  # fmt: skip
        await supervisor.start()

    with pytest.raises(InUse, match="another Litestream runs on"):
        asyncio.run(start())
    assert not touched.exists()


def test_the_log_holds_a_page_of_its_own_before_litestream_reads_it(conn, db):
    version = scalar(conn, "PRAGMA user_version")
    grow(conn, MORE_THAN_LITESTREAM_LEAVES)
    checkpoints.checkpoint_if_long(conn)
    assert state(conn)[0] == state(conn)[1] > 0

    begin_log(db)

    written, done = state(conn)
    assert written > done
    assert scalar(conn, "PRAGMA user_version") == version


def test_without_a_database_there_is_no_log_to_begin(tmp_path):
    begin_log(tmp_path / "none.db")
    assert list(Path(tmp_path).iterdir()) == []


def test_a_reader_by_hand_does_not_block_a_checkpoint(conn, db):
    reader = apsw.Connection(str(db))
    reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
    grow(conn, MORE_THAN_LITESTREAM_LEAVES)
    checkpoints.checkpoint_if_long(conn)
    assert state(conn)[1] < state(conn)[0]
    reader.close()
    checkpoints.checkpoint_if_long(conn)
    assert state(conn)[1] == state(conn)[0]
