"""The loop of dispatch and deliver: wake on a kick, a tick, the end of a job or a due time, and start what is ready.

Only the holder of the worker lock works. A new holder knows that every earlier one is gone, and first repairs what it
left unfinished.
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
    """The sessions or chats that a query found ready, and that are not started yet.

    So a thousand waiting sessions are not queried again whenever one ends. The result stays right while entries are
    only taken from it: *look* names each session or chat once, and no more than may start.
    """

    def __init__(self, look: Callable[[int], Iterable[T]]) -> None:
        self._look = look
        self._found: deque[T] = deque()
        self._looked_at_ms = 0

    def take(self, room: int, *, now_ms: int) -> list[T]:
        """Up to *room* entries, in order. Queries again when there is room for more, or after ``_FRESH_MS``."""
        if room <= 0:
            return []
        if len(self._found) < room or not 0 <= now_ms - self._looked_at_ms < _FRESH_MS:
            self._found = deque(self._look(now_ms))
            self._looked_at_ms = now_ms
        return [self._found.popleft() for _ in range(min(room, len(self._found)))]

    def forget(self) -> None:
        """Query again next time."""
        self._found.clear()


class Worker:
    """Runs *step* whenever there may be work.

    Args:
        name: the kick to listen for, and the kind of the lock.
        repair: called once with the lock held, before the first step.
        step: starts what is ready, through ``start``; returns the seconds until more becomes due, or None.
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
        """The number of running jobs."""
        return len(self._jobs)

    def wake(self) -> None:
        """Take a step soon: there may be work."""
        self._wake.set()

    def begin(self) -> None:
        """Start the loop, unless it runs already; it works as soon as it holds the lock."""
        if self._loop_task is None:
            self._loop_task = asyncio.create_task(self._loop(), name=f"{self._name}-loop")

    def start(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run *job* beside the others, and look for more work when it ends."""
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._end_job)
        return task

    async def stop(self) -> None:
        """Start nothing more, let the jobs end or cancel them, and release the lock.

        A running step may finish first: its claims need their jobs, because only a job gives a claim back.
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

    def _on_kick(self) -> None:
        if self._listener is not None:
            self._listener.drain()
        self._wake.set()

    def _end_job(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            log.error("worker.job_failed", worker=self._name, exc_info=error)
        self._wake.set()

    async def _take_lock(self) -> None:
        """Acquire the lock, then listen for kicks. Before that, the current holder must receive them."""
        if not self._lock.try_acquire():
            log.info("worker.waiting", worker=self._name, reason="another process works on this database")
            await self._lock.acquire()
        if self._listener is None:
            self._listener = Listener(self._sockets, self._name)
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._on_kick)

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
