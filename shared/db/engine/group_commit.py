"""Group commit: one writing thread a process. Concurrent work shares one commit, and the event loop waits for nobody.

While one commit is on its way to the disk, new work piles up and goes into the next one. Work that is asked for in one
turn of the event loop goes together, because the thread is woken at the end of the turn. There is no timer, so work
that is alone does not wait.

A process with a single job gains nothing from the thread: waking it, and then the event loop again, takes as long as
the transaction. Such a caller says that it is alone. Its work is done in the event loop, if no other writer is there.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw

from shared.db.engine.jobs import GROUP_LIMIT, Committer, Job

T = TypeVar("T")

_SLOW_S = 0.05  # a transaction that takes longer stops health checks and all else in the event loop
_SLOW_FOR_S = 120.0  # a disk that stalls does so again, with quick commits in between


@dataclass(slots=True)
class _Asked:
    """A job, and who waits for it."""

    job: Job[Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"


class Writer:
    """Runs work on the database, in the order of the requests.

    ``durable`` work is on the disk (``synchronous=FULL``) when its future resolves. Other work survives any crash of a
    process, and is on the disk after the next durable commit; a power cut before that undoes it as a whole.

    ``held`` says how long its last transaction had the write lock.
    """

    def __init__(self, path: Path, *, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._committer = Committer(path, clock_s=clock_s)
        self._clock_s = clock_s
        self._slow_at_s = -math.inf  # the end of the last slow transaction
        self.held = self._committer.held
        self._waiting: list[_Asked] = []
        self._lock = threading.Condition()
        self._closing = False
        self._is_busy = False  # the thread, or a caller that is alone, uses the connection
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T], *, durable: bool = True, alone: bool = False) -> T:
        """Do *work* in a transaction and return what it returned, once it is committed.

        Args:
            alone: nothing else needs this event loop meanwhile, so it may wait for the disk. It does not wait for
                other writers, and not for a disk that was slow within the last two minutes: the thread does that.

        Raises:
            The error of *work*, and then nothing of it is kept; or the error of its group's commit.
        """
        asked = _ask(Job(work, durable))
        if alone and self._do_now(asked.job):
            _resolve([asked])
        else:
            self._queue(asked)
        found: T = await asked.future
        return found

    def submit(self, work: Callable[[apsw.Connection], T], *, repeatable: bool = False) -> "asyncio.Future[T]":
        """As ``run``, with a future that the caller may give up: *work* may be done all the same.

        Args:
            repeatable: *work* may be done twice, because it changes nothing but the database; the first time is undone.
        """
        asked = _ask(Job(work, repeatable=repeatable))
        self._queue(asked)
        return asked.future

    def _queue(self, asked: _Asked) -> None:
        with self._lock:
            if self._closing:
                raise RuntimeError("the writer is closed")
            is_first_of_turn = not self._waiting or self._waiting[-1].loop is not asked.loop
            self._waiting.append(asked)
        if is_first_of_turn:
            asked.loop.call_soon(self._wake)

    def _do_now(self, job: Job[Any]) -> bool:
        """Do *job* in the thread of the caller, unless that has to wait for other work; whether it is done."""
        with self._lock:
            if self._waiting or self._is_busy or self._closing or not self._committer.may_do_now:
                return False
            if self._clock_s() - self._slow_at_s < _SLOW_FOR_S:
                return False
            self._is_busy = True
        try:
            return self._committer.do_now(job)
        finally:
            self._rest()

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
            self._committer.do([asked.job for asked in group])
            self._rest()
            _report(group)
        self._committer.close()

    def _next_group(self) -> list[_Asked]:
        with self._lock:
            while self._is_busy or not (self._waiting or self._closing):
                self._lock.wait()
            group, self._waiting = self._waiting[:GROUP_LIMIT], self._waiting[GROUP_LIMIT:]
            self._is_busy = bool(group)
            return group

    def _rest(self) -> None:
        """Let the thread do what has come meanwhile."""
        with self._lock:
            if self.held.seconds > _SLOW_S:
                self._slow_at_s = self.held.ended_s
            self._is_busy = False
            if self._waiting or self._closing:
                self._lock.notify()


def _ask(job: Job[Any]) -> _Asked:
    loop = asyncio.get_running_loop()
    return _Asked(job, loop, loop.create_future())


def _report(group: list[_Asked]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Asked]] = {}
    for asked in group:
        by_loop.setdefault(asked.loop, []).append(asked)
    for loop, done in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it every caller
            loop.call_soon_threadsafe(_resolve, done)


def _resolve(done: list[_Asked]) -> None:
    for asked in done:
        settle(asked.future, asked.job.result, asked.job.error)


def settle(future: "asyncio.Future[T]", result: T | None, error: BaseException | None) -> None:
    """Give the caller of a job its *result* or its *error*; one that was cancelled meanwhile gets neither."""
    if future.done():
        return
    if isinstance(error, StopIteration):  # which no future takes
        future.set_exception(RuntimeError("the work raised StopIteration"))
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(cast(T, result))
