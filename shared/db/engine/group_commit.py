"""Group commit: one writing thread a process. Concurrent work shares one commit, and the event loop waits for nobody.

While one commit is on its way to the disk, new work piles up and goes into the next one. Work that is asked for in one
turn of the event loop goes together, because the thread is woken at the end of the turn. There is no timer, so work
that is alone does not wait. Work that fails leaves its neighbours alone: each runs in a savepoint, or, where all of a
group may be done twice, they share one, and only the failure of one costs each a savepoint of its own.

A process with a single job gains nothing from the thread: waking it, and then the event loop again, takes as long as
the transaction. Such a caller says that it is alone. Its work is done in the event loop, if no other writer is there.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from shared.db.engine.checkpoints import WalBound
from shared.db.engine.connection import HeldTime, WouldWait, open_connection, rows, transaction

T = TypeVar("T")

_GROUP_LIMIT = 500
_SLOW_S = 0.05  # a transaction that takes longer stops health checks and all else in the event loop


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Callable[[apsw.Connection], T]
    durable: bool
    repeatable: bool
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[T]"
    result: T | None = None
    error: BaseException | None = None


class Writer:
    """Runs work on the database, in the order of the requests.

    ``durable`` work is on the disk (``synchronous=FULL``) when its future resolves. Other work survives any crash of a
    process, and is on the disk after the next durable commit; a power cut before that undoes it as a whole.

    ``held`` says how long its last transaction had the write lock.
    """

    def __init__(self, path: Path, *, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self.held = HeldTime(clock_s)
        self._path = path
        self._waiting: list[_Job[Any]] = []
        self._lock = threading.Condition()
        self._closing = False
        self._is_busy = False  # the thread, or a caller that is alone, uses the connection
        self._conn: apsw.Connection | None = None  # opened by the thread
        self._log = WalBound()
        self._synchronous = ""
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T], *, durable: bool = True, alone: bool = False) -> T:
        """Do *work* in a transaction and return what it returned, once it is committed.

        Args:
            alone: nothing else needs this event loop meanwhile, so it may wait for the disk. It does not wait for
                other writers, and not for a disk that was slow the last time: the thread does that.

        Raises:
            The error of *work*, and then nothing of it is kept; or the error of its group's commit.
        """
        job = _job(work, durable=durable)
        if alone and self._do_now(job):
            _resolve([job])
        else:
            self._queue(job)
        return await job.future

    def submit(self, work: Callable[[apsw.Connection], T], *, repeatable: bool = False) -> "asyncio.Future[T]":
        """As ``run``, with a future that the caller may give up: *work* may be done all the same.

        Args:
            repeatable: *work* may be done twice, because it changes nothing but the database; the first time is undone.
        """
        job = _job(work, durable=True, repeatable=repeatable)
        self._queue(job)
        return job.future

    def _queue(self, job: _Job[Any]) -> None:
        with self._lock:
            if self._closing:
                raise RuntimeError("the writer is closed")
            is_first_of_turn = not self._waiting or self._waiting[-1].loop is not job.loop
            self._waiting.append(job)
        if is_first_of_turn:
            job.loop.call_soon(self._wake)

    def _do_now(self, job: _Job[Any]) -> bool:
        """Do *job* in the thread of the caller, unless that has to wait for other work; whether it is done."""
        with self._lock:
            if self._waiting or self._is_busy or self._closing or self._conn is None:
                return False
            if self._log.is_long or self.held.seconds > _SLOW_S:  # of the last transaction
                return False
            self._is_busy = True
        try:
            self._commit(self._conn, [job], waits=False)
        except WouldWait:
            return False
        except Exception as error:  # noqa: BLE001 - the caller gets it; nothing was kept
            job.error = error
            self._drop_broken_connection()
        finally:
            self._rest()
        return True

    def _wake(self) -> None:
        with self._lock:
            self._lock.notify()

    def close(self) -> None:
        """Finish the work that is waiting, then stop."""
        with self._lock:
            self._closing = True
            self._lock.notify()
        self._thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            self._do(group)
            self._rest()
            _report(group)
        if self._conn is not None:
            self._conn.close()

    def _do(self, group: list[_Job[Any]]) -> None:
        try:
            if self._conn is None:
                self._conn = open_connection(self._path)
                self._conn.set_wal_hook(self._log)
            self._commit(self._conn, group)
        except Exception as error:  # noqa: BLE001 - each caller gets it; nothing of the group was kept
            for job in group:
                job.error = job.error or error
            self._drop_broken_connection()

    def _drop_broken_connection(self) -> None:
        """Where even the rollback failed, later work needs another connection."""
        if self._conn is not None and self._conn.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._conn.close()
            self._conn, self._synchronous = None, ""

    def _next_group(self) -> list[_Job[Any]]:
        with self._lock:
            while self._is_busy or not (self._waiting or self._closing):
                self._lock.wait()
            group, self._waiting = self._waiting[:_GROUP_LIMIT], self._waiting[_GROUP_LIMIT:]
            self._is_busy = bool(group)
            return group

    def _rest(self) -> None:
        """Let the thread do what has come meanwhile."""
        with self._lock:
            self._is_busy = False
            if self._waiting or self._closing:
                self._lock.notify()

    def _commit(self, conn: apsw.Connection, group: list[_Job[Any]], *, waits: bool = True) -> None:
        synchronous = "FULL" if any(job.durable for job in group) else "NORMAL"
        if synchronous != self._synchronous:
            rows(conn, f"PRAGMA synchronous = {synchronous}")
            self._synchronous = synchronous
        self._log.may_wait = waits
        with transaction(conn, waits=waits, held=self.held):
            if len(group) == 1:
                group[0].result = group[0].work(conn)
                return
            run = conn.cursor().execute  # conn.execute makes a cursor each time
            if not (all(job.repeatable for job in group) and _attempt_all(conn, group, run)):
                for job in group:
                    _attempt(conn, job, run)


def _job(work: Callable[[apsw.Connection], T], *, durable: bool, repeatable: bool = False) -> _Job[T]:
    loop = asyncio.get_running_loop()
    return _Job(work, durable, repeatable, loop, loop.create_future())


def _attempt_all(conn: apsw.Connection, group: list[_Job[Any]], run: Callable[[str], object]) -> bool:
    """Do the work of all. False: one failed, and nothing is kept of any."""
    run("SAVEPOINT jobs")
    try:
        for job in group:
            job.result = job.work(conn)
    except Exception:
        if not conn.in_transaction:
            raise  # as below
        run("ROLLBACK TO jobs")
        return False
    finally:
        if conn.in_transaction:
            run("RELEASE jobs")
    return True


def _attempt(conn: apsw.Connection, job: _Job[Any], run: Callable[[str], object]) -> None:
    run("SAVEPOINT job")
    try:
        job.result = job.work(conn)
    except Exception as error:
        if not conn.in_transaction:
            raise  # SQLite ended the whole transaction (disk full, I/O error), and so the group
        run("ROLLBACK TO job")
        job.error = error
    run("RELEASE job")


def _report(group: list[_Job[Any]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job[Any]]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it every caller
            loop.call_soon_threadsafe(_resolve, jobs)


def _resolve(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        if job.future.done():
            continue  # the caller was cancelled
        if isinstance(job.error, StopIteration):  # which no future takes
            job.future.set_exception(RuntimeError("the work raised StopIteration"))
        elif job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
