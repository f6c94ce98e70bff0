"""Who moves the log (the WAL) into the database: Litestream for as long as it runs, else we.

Litestream holds a read transaction open, so that nobody begins the log anew before it has read all of it. But what
0.5.17 opens during a request over its control socket, ends with that request, and whoever waits for the replica makes
such requests all the time (``shared/replica/sync.py``). From then on another's checkpoint moves commits that Litestream
has not read, the next writer begins the log anew over them, and Litestream goes on at its new beginning: it calls
replicated what no restore finds. Its own checkpoints are safe: it holds the write lock and reads to the end before.

So whoever checkpoints holds a lock, and Litestream has it all its life: it inherits it from its keeper, and the kernel
frees it when it ends, in whatever way (``infra/litestream/supervisor.py``).

Sources: https://github.com/benbjohnson/litestream/blob/main/db.go (acquireReadLock, checkpointWithExecutor, verify),
https://pkg.go.dev/database/sql#DB.BeginTx (a transaction ends with its context).
"""

import contextlib
import time
from pathlib import Path

import apsw

from shared.db.engine.lock import WorkerLock

LITESTREAM_PAGES = 1000  # it checkpoints when the log is so long
_LONG_PAGES = 10_000  # 40 MB: Litestream is away, or writers follow each other so fast that it finds no gap
_STEP_PAGES = 1000
_READERS_S = 0.005  # longer than a function reads
_MOST_DOUBLINGS = 5
_TRIES = 3
_LITESTREAM_S = 0.15  # it looks every 0.1 s


def lock(db: Path) -> WorkerLock:
    """The right to checkpoint *db*."""
    return WorkerLock(db.resolve(), "checkpoint")


def relieve(conn: apsw.Connection) -> None:
    """Move what is in the log, if that is more than Litestream leaves. PASSIVE: waits for nobody, and keeps nobody.

    Nothing while Litestream runs, or another checkpoints.
    """
    written, done = _state(conn)
    if written - done < LITESTREAM_PAGES:
        return
    right = lock(Path(conn.filename))
    if right.try_acquire():
        try:
            conn.wal_checkpoint()
        finally:
            right.release()


class WalBound:
    """A WAL hook: keeps the log short, within the commit that made it long; SQLite's own does, and it is not enough.

    The log begins anew only if, when the next writer comes, all of it is in the database *and* no reader looks at it.
    Where writers follow each other at once there is always such a reader, and the log grew without end. So the next
    writer, who waits at the gate, is kept a moment, until the readers of now are done; those who come later look at
    the database alone. If one of them was not, a longer moment follows a thousand pages later. PASSIVE itself waits
    for nobody. While Litestream runs it is the one to checkpoint, and the writers are kept until it has.
    """

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at = _LONG_PAGES

    def __call__(self, conn: apsw.Connection, database: str, pages: int) -> int:
        if pages < _LONG_PAGES:
            self._at = _LONG_PAGES
        elif pages >= self._at:
            self._at = pages + _STEP_PAGES
            with contextlib.suppress(apsw.Error, OSError):  # it would be told as the commit's, which stands
                self._shorten(conn, pages)
        return apsw.SQLITE_OK

    def _shorten(self, conn: apsw.Connection, pages: int) -> None:
        right = lock(Path(conn.filename))
        if right.try_acquire():
            try:
                _checkpoint(conn, steps=(pages - _LONG_PAGES) // _STEP_PAGES)
            finally:
                right.release()
        else:
            _wait_for_litestream(conn, pages)


def _checkpoint(conn: apsw.Connection, steps: int) -> None:
    for _ in range(_TRIES):
        with contextlib.suppress(apsw.BusyError):  # somebody is at it by hand
            written, done = conn.wal_checkpoint()  # PASSIVE
            if done == written:
                time.sleep(_READERS_S * 2 ** min(steps, _MOST_DOUBLINGS))
                return
        time.sleep(_READERS_S)  # a reader holds it up


def _wait_for_litestream(conn: apsw.Connection, pages: int) -> None:
    """Until it has begun the log anew; not for ever, it may be stopped."""
    deadline = time.monotonic() + _LITESTREAM_S
    while time.monotonic() < deadline and _state(conn)[0] >= pages:
        time.sleep(_READERS_S)


def _state(conn: apsw.Connection) -> tuple[int, int]:
    """Pages in the log, and how many of them are in the database."""
    return conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
