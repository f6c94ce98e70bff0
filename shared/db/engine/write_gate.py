"""The write gate of a database: one writer at a time over all processes, and a mark where a writer died in a commit.

SQLite writes the pages of a commit to the log, waits for the disk, and only then publishes them in the wal-index. A
process that dies in between has committed nothing; the next writer overwrites its pages. But Litestream reads the log
itself, and not the index. It has then sent a commit that never was. It does not notice what replaces that commit while
the replacement is shorter. When it notices, it makes a full copy that lacks what stands in the log before. Rows that it
has called replicated are then in no restore, or nothing restores at all.

So each writer leaves a mark in the gate's file while it commits, and removes it afterwards. A writer that finds a mark
lets no one write before Litestream has ended. Litestream's supervisor looks for that and kills it, and the next one
begins with a full copy (``infra/litestream/supervisor.py``).
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from shared.core.errors import InUse
from shared.core.time import clock
from shared.db.engine import checkpoints

_COMMITS, _IS_TORN = 0, 1  # the bytes of the file, which may be missing
_YES, _NO = b"1", b"0"
_WAIT_S, _STEP_S = 2.0, 0.005  # for Litestream's end


class WriteGate:
    """Lets one writer in at a time, nearly in the order of arrival: flock before SQLite's own lock.

    The kernel drops the lock when its holder dies. Litestream does not take it; SQLite's busy handler waits for
    Litestream.
    """

    __slots__ = ("_db", "_fd", "_thread")

    def __init__(self, db: Path) -> None:
        self._thread = threading.Lock()
        self._db = db
        self._fd = _open(db)

    def enter(self) -> None:
        self._thread.acquire()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if os.pread(self._fd, 1, _COMMITS) == _YES:
                self._wait_for_the_end_of_litestream()
        except BaseException:
            self.leave()
            raise

    def enter_now(self) -> bool:
        """Enter if that waits for nobody, no other writer and no end of Litestream; whether it did."""
        if not self._thread.acquire(blocking=False):
            return False
        is_inside = False
        try:
            if _try_enter(self._fd):
                is_inside = os.pread(self._fd, 1, _COMMITS) != _YES
        finally:
            if not is_inside:
                self.leave()
        return is_inside

    def leave(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._thread.release()

    def commit(self, run: Callable[[str], Any]) -> None:
        """Run COMMIT under the mark; the caller is inside the gate."""
        self._write(_YES, _COMMITS)
        try:
            run("COMMIT")
        except apsw.IOError:  # uncommitted pages may stand in the log, as if this process had died
            raise
        except BaseException:
            self._write(_NO, _COMMITS)
            raise
        self._write(_NO, _COMMITS)

    def _write(self, marks: bytes, at: int) -> None:
        """Write marks as far as the disk takes them. A full disk takes no commit either; an empty one needs no mark."""
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, marks, at)

    def close(self) -> None:
        os.close(self._fd)

    def _wait_for_the_end_of_litestream(self) -> None:
        self._write(_YES, _IS_TORN)
        checkpoint_lock = checkpoints.lock(self._db)
        deadline = clock.monotonic_s() + _WAIT_S
        while not checkpoint_lock.try_acquire():
            if clock.monotonic_s() >= deadline:
                return  # its supervisor is frozen: until that goes on, nothing is acknowledged as replicated
            clock.pause(_STEP_S)
        self._write(_NO + _NO, _COMMITS)
        checkpoint_lock.release()


def is_torn(db: Path) -> bool:
    """Whether the running Litestream may send too little, because a process died in a commit beside it."""
    try:
        marks = _path(db).read_bytes()
    except FileNotFoundError:
        return False
    return marks[_IS_TORN:] == _YES


def check_torn(db: Path) -> bool:
    """As :func:`is_torn`, and also where no writer has come since. Waits for no process."""
    if not _path(db).exists():
        return False
    fd = _open(db)
    try:
        if os.pread(fd, 1, _COMMITS) == _YES and _try_enter(fd) and os.pread(fd, 1, _COMMITS) == _YES:
            os.pwrite(fd, _YES, _IS_TORN)
    finally:
        os.close(fd)
    return is_torn(db)


@contextlib.contextmanager
def reset_marks(db: Path, limit_s: float) -> Iterator[None]:
    """Hold the gate with its marks removed: no Litestream runs, and the next one begins with a full copy.

    Raises:
        InUse: the process inside has not left in time.
    """
    fd = _open(db)
    try:
        deadline = clock.monotonic_s() + limit_s
        while not _try_enter(fd):
            if clock.monotonic_s() >= deadline:
                raise InUse(
                    f"a process has been inside a transaction on {db} for more than {limit_s:.0f} s: find it (fuser "
                    f"{db}) and end it"
                )
            clock.pause(_STEP_S)
        os.pwrite(fd, _NO + _NO, _COMMITS)
        yield
    finally:
        os.close(fd)


def _path(db: Path) -> Path:
    real = db.resolve()  # as SQLite does: one database has one gate
    return real.with_name(f"{real.name}-gate")


def _open(db: Path) -> int:
    return os.open(_path(db), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_enter(fd: int) -> bool:
    """Take the gate if it is free, until the file is closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
