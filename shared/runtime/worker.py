"""The loop that dispatch and deliver share: wake on a kick, a tick, a job's end or a due time; start what is ready.

Only the holder of the worker lock works. Whoever gets the lock knows that every earlier holder is gone, and first
repairs what such a one left behind.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

from shared.core import logs
from shared.db.engine.lock import WorkerLock
from shared.runtime.kick import Listener

log = logs.get()

T = TypeVar("T")

_ERROR_PAUSE_S = 1.0
_FRESH_MS = 250
_STOP_PATIENCE_S = 1.0  # the runner gives the whole stop less than 3 s


class Backlog(Generic[T]):
    """What a look at the rows found ready, and is not begun yet.

    With a thousand sessions or chats waiting, they are not all looked at whenever one ends. What a look found stays
    right while it is only taken from: whoever looks names each session or chat once, and no more than may be begun.
    """

    def __init__(self, look: Callable[[int], Iterable[T]]) -> None:
        self._look = look
        self._found: deque[T] = deque()
        self._looked_at_ms = 0

    def take(self, room: int, *, now_ms: int) -> list[T]:
        """Up to *room* of what is ready, in order. Looks anew when there is room for more, or after a while."""
        if room <= 0:
            return []
        if len(self._found) < room or not 0 <= now_ms - self._looked_at_ms < _FRESH_MS:
            self._found = deque(self._look(now_ms))
            self._looked_at_ms = now_ms
        return [self._found.popleft() for _ in range(min(room, len(self._found)))]

    def forget(self) -> None:
        """Look anew next time."""
        self._found.clear()


class Worker:
    """Runs *step* whenever there may be work.

    Args:
        name: the kick to listen for, and the lock's kind.
        repair: called once with the lock in hand, before the first step.
        step: starts what is ready, through ``start``; returns in how many seconds something else becomes due, or None.
    """

    def __init__(
        self,
        name: str,
        *,
        db: Path,
        sockets: Path,
        repair: Callable[[], Awaitable[None]],
        step: Callable[[], Awaitable[float | None]],
    ) -> None:
        self._name = name
        self._lock = WorkerLock(db, name)
        self._sockets = sockets
        self._repair = repair
        self._step = step
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._loop_task: asyncio.Task[None] | None = None
        self._listener: Listener | None = None
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """How many jobs are under way."""
        return len(self._jobs)

    def wake(self) -> None:
        """There may be work."""
        self._wake.set()

    def begin(self) -> None:
        """Start the loop, once; it works as soon as it holds the lock."""
        if self._loop_task is None:
            self._loop_task = asyncio.create_task(self._loop(), name=f"{self._name}-loop")

    def start(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run *job* beside the others, and look for more work when it ends."""
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self) -> None:
        """Take nothing new, let the jobs end or cancel them, free the lock.

        A step under way is let to its end: what it has claimed must get its job, or nobody gives it back.
        """
        self._is_stopping = True
        self._wake.set()
        if self._loop_task is not None:
            if self._lock.is_held:
                await asyncio.wait([self._loop_task], timeout=_STOP_PATIENCE_S)
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=_STOP_PATIENCE_S)
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        self._lock.release()

    def _kicked(self) -> None:
        if self._listener is not None:
            self._listener.drain()
        self._wake.set()

    def _ended(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            log.error("worker.job_failed", worker=self._name, exc_info=error)
        self._wake.set()

    async def _take_lock(self) -> None:
        """Return with the lock. Only then hear kicks: whoever waits would take them from the one that works."""
        if not self._lock.try_acquire():
            log.info("worker.waiting", worker=self._name, reason="another process works on this database")
            await self._lock.acquire()
        if self._listener is None:
            self._listener = Listener(self._sockets, self._name)
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._kicked)

    async def _loop(self) -> None:
        is_repaired = False
        while not self._is_stopping:
            self._wake.clear()
            try:
                await self._take_lock()
                if not is_repaired:
                    await self._repair()
                    is_repaired = True
                pause = await self._step()
            except Exception:  # the batch boundary: a full disk or a locked file must not end the loop
                log.exception("worker.step_failed", worker=self._name)
                pause = _ERROR_PAUSE_S
            if not self._is_stopping:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), pause)
