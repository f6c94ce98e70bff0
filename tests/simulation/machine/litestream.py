"""A Litestream of the world: it answers on the control socket, and its replica is what it had read at its last answer.

The functions' own question runs against it (``shared/db/replica/shared_question.py``). It holds the checkpoint lock all
its life and a read transaction at the position of the replica, as the real one does, and moves the log by itself. Its
supervisor ends it where the write gate says that it may send too little.
"""

import json
from pathlib import Path

import apsw

from shared.db.engine import checkpoints, write_gate
from shared.db.engine.connection import open_connection
from shared.db.replica import sync_permit
from tests.simulation.machine.disk import Disk
from tests.simulation.machine.loop import LANE, SimulatedLoop, context_of
from tests.simulation.machine.wires import Asked, Told, Wires

_FOR_EVER_S = 1e9


class Litestream:
    """*is_away*: the bucket does not answer."""

    def __init__(self, loop: SimulatedLoop, disk: Disk, wires: Wires, db: Path, socket: Path) -> None:
        self._loop, self._disk, self._wires = loop, disk, wires
        self._db, self._socket = db, socket
        self._lock = checkpoints.lock(db)
        self._conn: apsw.Connection | None = None
        self._position = 0
        self._image = b""  # the replica, while no Litestream runs
        self.is_away = False
        self.uploads = 0
        self.restarts = 0

    @property
    def is_running(self) -> bool:
        return self._conn is not None

    def start(self) -> None:
        """Begin with a full copy. While the bucket is away, there is none, and so no permit."""
        if self.is_running or not self._lock.try_acquire():
            return
        context_of(self._loop.outside).run(self._open)
        if not self.is_away:
            self._upload()
            sync_permit.grant(self._socket, sync_permit.now_s() + _FOR_EVER_S)
        self._wires.hosts[str(self._socket)] = self._answer
        self.restarts += 1

    def _open(self) -> None:
        self._conn = open_connection(self._db, readonly=True)

    def end(self) -> None:
        """It is killed, or its machine is; the replica stays as it was."""
        if self._conn is None:
            return
        self._image = self._copy()
        self._conn.close(True)
        self._conn = None
        sync_permit.revoke(self._socket)
        self._wires.unplug(str(self._socket))
        self._lock.release()

    def supervise(self) -> None:
        """What its supervisor does, every second and while a writer waits for Litestream's end."""
        if self.is_running and write_gate.check_torn(self._db):
            self.end()
        if self._conn is not None:
            self._move_log()

    def restart(self) -> None:
        """Its supervisor starts the next one, without the marks of the last."""
        if not self.is_running:
            with write_gate.reset_marks(self._db, 1.0):
                pass
            self.start()

    def replica(self) -> bytes:
        """The database as the bucket has it."""
        return self._copy() if self.is_running else self._image

    def _copy(self) -> bytes:
        assert self._conn is not None
        return self._conn.serialize("main") if self._conn.in_transaction else self._image

    def _upload(self) -> None:
        """All that is committed is in the bucket; the transaction stands there until the next upload."""
        conn = self._conn
        assert conn is not None
        if conn.in_transaction:
            conn.execute("COMMIT")
        conn.execute("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        self.uploads += 1

    def _move_log(self) -> None:
        """Litestream's own checkpoint, once the log is long."""
        lane = LANE.set(self._loop.outside)
        conn = open_connection(self._db)
        try:
            written, _ = conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if written >= checkpoints.LITESTREAM_PAGES and not self.is_away:
                self._upload()
                conn.wal_checkpoint()
        except apsw.Error:
            pass  # the disk fails at the moment
        finally:
            conn.close()
            LANE.reset(lane)

    def _answer(self, asked: Asked) -> Told | None:
        wants = json.loads(asked.body)
        if self.is_away and wants["wait"]:
            return None
        if not sync_permit.is_valid(self._socket) and not self.is_away:
            sync_permit.grant(self._socket, sync_permit.now_s() + _FOR_EVER_S)
        self._position += 1
        if not self.is_away:
            self._upload()
        there = self._position if not self.is_away else 0
        return Told(body=json.dumps({"txid": self._position, "replicated_txid": there}).encode(), after_s=0.003)
