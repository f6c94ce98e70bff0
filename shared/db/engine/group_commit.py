"""Group commit: one writing thread a process. Concurrent work shares one commit, and the event loop waits for nobody.

While one commit is on its way to the disk, new work piles up and goes into the next one. Work that is asked for in one
turn of the event loop goes together, because the thread is woken at the end of the turn. There is no timer, so work
that is alone does not wait. A ``Writer`` takes turns, a group of work in each; its driver says when.

A process with a single job gains nothing from the thread: waking it, and then the event loop again, takes as long as
the transaction. Such a caller says that it is alone, and so does one whose short work waits for no disk. Its work is
done in the event loop, if no other writer is there.
"""

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import apsw
import msgspec

from shared.core.time import clock
from shared.db.engine.jobs import GROUP_LIMIT, Committer, Job

T = TypeVar("T")

_SLOW_S = 0.05  # a transaction that takes longer stops health checks and all else in the event loop
_SLOW_FOR_S = 120.0  # a disk that stalls does so again, with quick commits in between


class _Asked(msgspec.Struct):
    """A job, and who waits for it."""

    job: Job[Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"


class Driver(Protocol):
    """Lets a writer take its turns, one after the other."""

    def wake(self) -> None:
        """There is work, or the writer closes."""

    def end(self) -> None:
        """Return when the writer, which closes, has taken its last turn."""


class Writer:
    """Runs work on the database, in the order of the requests.

    ``durable`` work is on the disk (``synchronous=FULL``) when its future resolves. Other work survives any crash of a
    process, and is on the disk after the next durable commit; a power cut before that undoes it as a whole.

    ``held`` says how long its last transaction had the write lock.
    """

    def __init__(self, path: Path, *, clock_s: Callable[[], float] = clock.monotonic_s) -> None:
        self._committer = Committer(path, clock_s=clock_s)
        self._clock_s = clock_s
        self._slow_at_s = -math.inf  # the end of the last slow transaction
        self.held = self._committer.held
        self._waiting: list[_Asked] = []
        self.changed = threading.Condition()  # notified by a driver that waits for it
        self._closing = False
        self._is_busy = False  # a turn, or a caller that is alone, uses the connection
        self._driver = _drive(self)

    async def run(self, work: Callable[[apsw.Connection], T], *, durable: bool = True, alone: bool = False) -> T:
        """Do *work* in a transaction and return what it returned, once it is committed.

        Args:
            alone: nothing else needs this event loop meanwhile, so it may wait for the disk, or *work* is short and not
                durable, so that nothing waits for the disk. It does not wait for other writers, and not for a disk that
                was slow within the last two minutes: the thread does that.

        Raises:
            The error of *work*, and then nothing of it is kept; or the error of its group's commit.
        """
        job = Job(work, durable)
        if alone and self._do_now(job):
            if job.error is not None:
                raise job.error
            return cast(T, job.result)
        asked = _ask(job)
        self._queue(asked)
        found: T = await asked.future
        return found

    def submit(self, work: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """As ``run``, with a future that the caller may give up: *work* may be done all the same."""
        asked = _ask(Job(work))
        self._queue(asked)
        return asked.future

    def _queue(self, asked: _Asked) -> None:
        with self.changed:
            if self._closing:
                raise RuntimeError("the writer is closed")
            is_first_of_turn = not self._waiting or self._waiting[-1].loop is not asked.loop
            self._waiting.append(asked)
        if is_first_of_turn:
            asked.loop.call_soon(self._driver.wake)

    def _do_now(self, job: Job[Any]) -> bool:
        """Do *job* in the thread of the caller, unless that has to wait for other work; whether it is done."""
        with self.changed:
            if self._waiting or self._is_busy or self._closing or not self._committer.may_do_now:
                return False
            if self._clock_s() - self._slow_at_s < _SLOW_FOR_S:
                return False
            self._is_busy = True
        try:
            return self._committer.do_now(job)
        finally:
            self._rest()

    def turn(self, *, waits: bool = False) -> bool:
        """Do one group of work, and tell its callers; whether there was any.

        Args:
            waits: for work, with this thread; there is none then when the writer closes.
        """
        group = self._next_group(waits)
        if group:
            self._committer.do([asked.job for asked in group])
            self._rest()
            _report(group)
        return bool(group)

    def close(self) -> None:
        """Finish the work that is waiting, then stop."""
        with self.changed:
            self._closing = True
        self._driver.wake()
        self._driver.end()
        self._committer.close()

    def _next_group(self, waits: bool) -> list[_Asked]:
        with self.changed:
            while waits and (self._is_busy or not (self._waiting or self._closing)):
                self.changed.wait()
            if self._is_busy:
                return []
            group, self._waiting = self._waiting[:GROUP_LIMIT], self._waiting[GROUP_LIMIT:]
            self._is_busy = bool(group)
            return group

    def _rest(self) -> None:
        """Have done what has come meanwhile."""
        with self.changed:
            if self.held.seconds > _SLOW_S:
                self._slow_at_s = self.held.ended_s
            self._is_busy = False
            if self._waiting or self._closing:
                self._driver.wake()


class WritingThread:
    """The driver that a writer has by default: a thread, which sleeps while there is nothing to do."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        with self._writer.changed:
            self._writer.changed.notify()

    def end(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while self._writer.turn(waits=True):
            pass


_drive: Callable[[Writer], Driver] = WritingThread


def drive_by(make: Callable[[Writer], Driver]) -> None:
    """Let *make* give the driver of each writer that is made from now on. Nothing of the product calls it."""
    global _drive
    _drive = make


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
