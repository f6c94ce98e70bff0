"""The gate in front of a database: one writer at a time over all its processes, and a mark where one died in a commit.

SQLite writes the pages of a commit to the log, waits for the disk, and only then tells the others (in the wal-index).
Who dies in between has committed nothing: the next writer puts his own pages over them. But Litestream reads the log
itself, and not the index. It has then sent a commit that never was; it does not see what is put in its place while that
is shorter; and when it sees it, makes a whole copy that lacks all that is in the log before. Rows that it has called
replicated are then in no restore, or nothing restores at all.

So whoever commits leaves a mark in the gate's file, and takes it away afterwards. Whoever finds one on entering the
gate lets nobody write before Litestream has ended; its keeper looks for that, kills it, and the next one begins with a
whole copy (``infra/litestream/supervisor.py``).
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from shared.core.errors import InUse
from shared.db.engine import checkpoints

_COMMITS, _IS_TORN = 0, 1  # the bytes of the file, which may be missing
_YES, _NO = b"1", b"0"
_WAIT_S, _STEP_S = 2.0, 0.005  # for Litestream's end


class Gate:
    """Lets one writer in at a time, nearly in the order of arrival: flock before SQLite's own lock.

    The kernel drops the lock when its holder dies. Litestream doesn't take it; the busy handler waits for that one.
    """

    __slots__ = ("_db", "_fd", "_thread")

    def __init__(self, db: Path) -> None:
        self._thread = threading.Lock()
        self._db = db
        self._fd = _opened(db)

    def enter(self) -> None:
        self._thread.acquire()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if os.pread(self._fd, 1, _COMMITS) == _YES:
                self._wait_for_the_end_of_litestream()
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._thread.release()

    def commit(self, run: Callable[[str], Any]) -> None:
        """COMMIT by *run*, which is inside."""
        self._write(_YES, _COMMITS)
        try:
            run("COMMIT")
        except apsw.IOError:  # what never was may stand in the log: as if we had died
            raise
        except BaseException:
            self._write(_NO, _COMMITS)
            raise
        self._write(_NO, _COMMITS)

    def _write(self, marks: bytes, at: int) -> None:
        """As far as the disk takes it: full, it takes no commit either, and one without a change needs no mark."""
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, marks, at)

    def close(self) -> None:
        os.close(self._fd)

    def _wait_for_the_end_of_litestream(self) -> None:
        self._write(_YES, _IS_TORN)
        right = checkpoints.lock(self._db)
        deadline = time.monotonic() + _WAIT_S
        while not right.try_acquire():
            if time.monotonic() >= deadline:
                return  # its keeper is frozen: until that has gone on, nothing is acknowledged as replicated
            time.sleep(_STEP_S)
        self._write(_NO + _NO, _COMMITS)
        right.release()


def is_torn(db: Path) -> bool:
    """Whether what is sent by the Litestream of now may lack something: a process died in a commit beside it."""
    try:
        marks = _path(db).read_bytes()
    except FileNotFoundError:
        return False
    return marks[_IS_TORN:] == _YES


def look(db: Path) -> bool:
    """As :func:`is_torn`, and also where nobody has come since. Waits for nobody."""
    if not _path(db).exists():
        return False
    fd = _opened(db)
    try:
        if os.pread(fd, 1, _COMMITS) == _YES and _try_enter(fd) and os.pread(fd, 1, _COMMITS) == _YES:
            os.pwrite(fd, _YES, _IS_TORN)
    finally:
        os.close(fd)
    return is_torn(db)


@contextlib.contextmanager
def forgetting(db: Path, limit_s: float) -> Iterator[None]:
    """Inside, and without a mark: no Litestream runs, and the next one begins with a whole copy.

    Raises:
        InUse: whoever is inside has not left in time.
    """
    fd = _opened(db)
    try:
        deadline = time.monotonic() + limit_s
        while not _try_enter(fd):
            if time.monotonic() >= deadline:
                raise InUse(f"a process is in the midst of a transaction on {db}, for more than {limit_s:.0f} s")
            time.sleep(_STEP_S)
        os.pwrite(fd, _NO + _NO, _COMMITS)
        yield
    finally:
        os.close(fd)


def _path(db: Path) -> Path:
    real = db.resolve()  # as SQLite does: one database has one gate
    return real.with_name(f"{real.name}-gate")


def _opened(db: Path) -> int:
    return os.open(_path(db), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_enter(fd: int) -> bool:
    """Be inside, if nobody is, until the file is closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
