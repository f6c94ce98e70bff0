"""Jobs that share a transaction: what one commit does for many callers.

A job that fails leaves its neighbours alone: each runs in a savepoint of its own. One savepoint for all would keep a
copy of every page that any of them changes, until the last is done: measured, a third more time for 32 jobs.
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw
import msgspec

from shared.core.time import clock
from shared.db.engine.checkpoints import WalBound
from shared.db.engine.connection import HeldTime, WouldWait, open_connection, rows, transaction

T = TypeVar("T")

GROUP_LIMIT = 500
"""How many jobs share a transaction at most."""


class Job(msgspec.Struct, Generic[T]):
    """Work on the database, and what came of it.

    Attributes:
        durable: it is on the disk (``synchronous=FULL``) when it is committed.
        result: what *work* returned, unless there is an *error*.
    """

    work: Callable[[apsw.Connection], T]
    durable: bool = True
    result: T | None = None
    error: BaseException | None = None


class Committer:
    """Does groups of jobs on one connection, which the first group opens; for one thread at a time.

    ``held`` says how long the last transaction had the write lock.
    """

    def __init__(self, path: Path, *, clock_s: Callable[[], float] = clock.monotonic_s) -> None:
        self.held = HeldTime(clock_s)
        self._path = path
        self._conn: apsw.Connection | None = None
        self._log = WalBound()
        self._synchronous = ""

    @property
    def may_do_now(self) -> bool:
        """The connection is open, and no writer waits for a checkpoint at the next commit."""
        return self._conn is not None and not self._log.is_long

    def do(self, group: Sequence[Job[Any]]) -> None:
        """Do the jobs and commit. Never raises: each job has its result or its error, also that of the commit."""
        try:
            if self._conn is None:
                self._conn = open_connection(self._path)
                self._conn.set_wal_hook(self._log)
            self._commit(self._conn, group, waits=True)
        except Exception as error:  # noqa: BLE001 - each caller gets it; nothing of the group was kept
            for job in group:
                job.error = job.error or error
            self._drop_broken_connection()

    def do_now(self, job: Job[Any]) -> bool:
        """As ``do``, for one job on the open connection, unless that has to wait for other writers; whether it did."""
        assert self._conn is not None  # noqa: S101 - may_do_now says so
        try:
            self._commit(self._conn, [job], waits=False)
        except WouldWait:
            return False
        except Exception as error:  # noqa: BLE001 - the caller gets it; nothing was kept
            job.error = error
            self._drop_broken_connection()
        return True

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def _commit(self, conn: apsw.Connection, group: Sequence[Job[Any]], *, waits: bool) -> None:
        synchronous = "FULL" if any(job.durable for job in group) else "NORMAL"
        if synchronous != self._synchronous:
            rows(conn, f"PRAGMA synchronous = {synchronous}")
            self._synchronous = synchronous
        self._log.may_wait = waits
        with transaction(conn, waits=waits, held=self.held):
            if len(group) == 1:
                group[0].result = group[0].work(conn)
                return
            for job in group:
                _attempt(conn, job)

    def _drop_broken_connection(self) -> None:
        """Where even the rollback failed, later work needs another connection."""
        if self._conn is not None and self._conn.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._conn.close()
            self._conn, self._synchronous = None, ""


def _attempt(conn: apsw.Connection, job: Job[Any]) -> None:
    conn.execute("SAVEPOINT job")
    try:
        job.result = job.work(conn)
    except Exception as error:
        if not conn.in_transaction:
            raise  # SQLite ended the whole transaction (disk full, I/O error), and so the group
        conn.execute("ROLLBACK TO job")
        job.error = error
    conn.execute("RELEASE job")
