"""Checkpoints: Litestream moves the log (the WAL) into the database while it runs; otherwise a writer does.

Litestream holds a read transaction open, so that no writer begins the log again before Litestream has read all of it.
But in 0.5.17 a transaction that is opened during a request over the control socket ends with that request. Functions
that wait for the replica make such requests all the time (``shared/db/replica/sync.py``). After that, another process's
checkpoint can move commits that Litestream has not read. The next writer begins the log again over them, and Litestream
continues at the new beginning: it reports commits as replicated that no restore finds. Its own checkpoints are safe,
because it first takes the write lock and reads to the end.

So a process holds the checkpoint lock while it checkpoints. Litestream inherits that lock from its supervisor and holds
it until it ends; then the kernel frees it (``infra/litestream/supervisor.py``).

Sources: https://github.com/benbjohnson/litestream/blob/main/db.go (acquireReadLock, checkpointWithExecutor, verify),
https://pkg.go.dev/database/sql#DB.BeginTx (a transaction ends with its context).
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import apsw

from shared.core.time import clock
from shared.db.engine.lock import WorkerLock

LITESTREAM_PAGES = 1000  # at this length of the log it checkpoints
_LONG_PAGES = 10_000  # 40 MB: Litestream is away, or writers leave it no gap
_STEP_PAGES = 1000
_CATCH_UPS = 5
_FINISH_PAGES = 4000  # 16 MB
_FEW_PAGES = 100
_READERS_S = 0.005  # longer than a function reads
_MOST_DOUBLINGS = 5
_TRIES = 3
_LITESTREAM_S = 0.15  # it looks every 0.1 s


def lock(db: Path) -> WorkerLock:
    """The checkpoint lock of *db*; not taken yet."""
    return WorkerLock(db.resolve(), "checkpoint")


def is_strained(conn: apsw.Connection) -> bool:
    """Whether the log is nearly at the length at which writers wait, and a part can't be moved into the database yet.

    Work that can wait should wait, because each further page brings that length nearer.
    """
    written, done = _state(conn)
    return done < written and written >= _LONG_PAGES - 2 * _STEP_PAGES


def checkpoint_if_long(conn: apsw.Connection, *, sync: Callable[[int], None] = os.fdatasync) -> None:
    """Move the log into the database, if it is longer than Litestream lets it become. PASSIVE: delays no process.

    Tries to reach the end, so that the next writer begins the log again. Does nothing while Litestream runs, or another
    process checkpoints.

    Raises:
        OSError: the disk could not keep what was moved.
    """
    written, done = _state(conn)
    if written - done < LITESTREAM_PAGES:
        return
    checkpoint_lock = lock(Path(conn.filename))
    if checkpoint_lock.try_acquire():
        try:
            _catch_up(conn, sync)
        finally:
            checkpoint_lock.release()


def is_nearly_moved(conn: apsw.Connection) -> bool:
    """Whether the log is long, and all but its last pages are in the database: :func:`finish` is short."""
    written, done = _state(conn)
    return written >= _FINISH_PAGES and 0 < written - done <= _FEW_PAGES


def finish(conn: apsw.Connection) -> None:
    """Move the last pages, so that the next writer begins the log again. The caller holds the write gate.

    When writers follow each other without a pause, a checkpoint beside them never reaches the end of the log. The log
    then grows, although nearly all of it is moved, until ``WalBound`` makes all writers wait (44 ms measured). Moving
    the last pages takes as long as a write or two.
    """
    checkpoint_lock = lock(Path(conn.filename))
    if checkpoint_lock.try_acquire():
        try:
            conn.wal_checkpoint()
        finally:
            checkpoint_lock.release()


def _send_to_disk(db: Path, sync: Callable[[int], None]) -> None:
    """Sync the pages that checkpoints wrote to the disk. SQLite does so only in a checkpoint without a concurrent
    commit.

    Otherwise the pages of many checkpoints are synced by the one that makes the writers wait (40 MB: 44 ms measured).

    Raises:
        OSError: the disk could not keep them. Linux says so once to each descriptor: SQLite's own sync, which comes
            later, may succeed although the pages are lost.
    """
    fd = None
    with contextlib.suppress(OSError):  # no list of descriptors: then SQLite's own sync has to do it all
        fd = descriptor(db)
    if fd is not None:
        sync(fd)


def descriptor(db: Path) -> int | None:
    """A descriptor by which SQLite has opened the file in this process.

    A descriptor of our own would have to be closed, and that drops SQLite's locks on the file in this process.
    """
    file = db.stat()
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(os.fstat(int(entry.name)), file):
                return int(entry.name)
    return None


def begins_again(conn: apsw.Connection) -> bool:
    """Whether the next writer begins the log again, if no reader uses it. That writer waits for the disk."""
    written, done = _state(conn)
    return done == written > 0


def _catch_up(conn: apsw.Connection, sync: Callable[[int], None]) -> None:
    """Checkpoint a few times, until no commit came meanwhile; each moves what came during the one before."""
    last = -1
    for _ in range(_CATCH_UPS):
        conn.wal_checkpoint()  # PASSIVE; the log may be longer when it returns
        written, done = _state(conn)
        if done in (written, last):  # at the end, or a reader holds it up
            return
        last = done
        _send_to_disk(Path(conn.filename), sync)


class WalBound:
    """A WAL hook that keeps the log short, within the commit that made it long. SQLite's own hook is not enough.

    The log begins again only if all of it is in the database *and* no reader uses it when the next writer comes. With
    writers that follow each other without a pause, there is always such a reader, and the log would grow without end.
    So the next writer waits briefly at the gate until the present readers are done; later readers use only the
    database. If a reader takes longer, a longer wait follows a thousand pages later. PASSIVE itself delays no process.
    While Litestream runs, it checkpoints, and the writers wait for that. A long reader, such as a search, prevents it.
    After a wait without success, there is no other wait until Litestream has moved a page.

    Attributes:
        is_long: the log was long at the last commit; the next one may wait.
        may_wait: otherwise a commit only notes the length. Other processes may have made the log long.
    """

    __slots__ = ("_at", "_stuck", "is_long", "may_wait")

    def __init__(self) -> None:
        self.is_long = False
        self.may_wait = True
        self._at = _LONG_PAGES
        self._stuck: int | None = None  # the pages in the database when a wait for Litestream was in vain

    def __call__(self, conn: apsw.Connection, database: str, pages: int) -> int:
        self.is_long = pages >= _LONG_PAGES
        if not self.is_long:
            self._at, self._stuck = _LONG_PAGES, None
        elif self.may_wait and pages >= self._at:
            self._at = pages + _STEP_PAGES
            with contextlib.suppress(apsw.Error, OSError):  # it would look like an error of the commit, which stands
                self._shorten(conn, pages)
        return apsw.SQLITE_OK

    def _shorten(self, conn: apsw.Connection, pages: int) -> None:
        checkpoint_lock = lock(Path(conn.filename))
        if checkpoint_lock.try_acquire():
            try:
                _checkpoint(conn, steps=(pages - _LONG_PAGES) // _STEP_PAGES)
            finally:
                checkpoint_lock.release()
        elif _state(conn)[1] != self._stuck:
            _wait_for_litestream(conn, pages)
            self._stuck = _state(conn)[1]


def _checkpoint(conn: apsw.Connection, steps: int) -> None:
    for _ in range(_TRIES):
        with contextlib.suppress(apsw.BusyError):  # a shell checkpoints by hand
            written, done = conn.wal_checkpoint()  # PASSIVE
            if done == written:
                clock.pause(_READERS_S * 2 ** min(steps, _MOST_DOUBLINGS))
                return
        clock.pause(_READERS_S)  # a reader holds it up


def _wait_for_litestream(conn: apsw.Connection, pages: int) -> None:
    """Wait until it has begun the log again, up to a limit: it may be stopped."""
    deadline = clock.monotonic_s() + _LITESTREAM_S
    while clock.monotonic_s() < deadline and _state(conn)[0] >= pages:
        clock.pause(_READERS_S)


def _state(conn: apsw.Connection) -> tuple[int, int]:
    """The pages in the log, and how many of them are in the database."""
    return conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
