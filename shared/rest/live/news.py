"""News: that something has changed, for readers that then ask again, as open pages do. One look at ``events`` for all.

What the readers ask for costs more than the telling, and many open pages may not take a processor from what takes in
messages. So they are told one after the other: ten a second at most, and so few that their reads take a twentieth of
one processor.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

import apsw

from shared.core import logs
from shared.db.queue import events
from shared.rest.live.shared_task import SharedTask

log = logs.get()

_PACE_S = 1.0  # of one reader
_APART_S = 0.1  # between two readers that are told, at least
_PARTS = 20
_LONGEST_S = 3.0  # whatever was read, the next reader is told


class ChangeNews(SharedTask):
    """One look at a time, which runs while there are readers.

    Args:
        wait: waits for the next event, for as many seconds at most.
        spent_s: the processor time that reads have taken so far.
        at_least_every_s: a reader is told after this time without a change too: some things change by time alone.
    """

    def __init__(
        self,
        conn: apsw.Connection,
        wait: Callable[[float], Awaitable[None]],
        spent_s: Callable[[], float],
        *,
        at_least_every_s: float = 15.0,
    ) -> None:
        super().__init__()
        self._conn = conn
        self._wait = wait
        self._spent_s = spent_s
        self._at_least_every_s = at_least_every_s
        self._free_at = 0.0
        self._counted_s = 0.0
        self._newest = 0
        self._turn = asyncio.Lock()

    async def read(self) -> AsyncGenerator[bytes, None]:
        """A frame ``changed`` after a change, with the newest event's id, until the news close."""
        self._join()
        try:
            told = self._newest
            while not self._is_closed:
                await self._growth(told)
                async with self._turn:  # first come, first told
                    await self._pause()
                told = self._newest
                if not self._is_closed:
                    yield b'event: changed\ndata: {"newest": %d}\n\n' % told
                    await asyncio.sleep(_PACE_S - _APART_S)
        finally:
            self._leave()

    async def _growth(self, told: int) -> None:
        if told == self._newest and not self._is_closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._at_least_every_s):
                    await self._grown.wait()

    async def _pause(self) -> None:
        """Wait until the reads so far are spread over twenty times as long as they took."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(_APART_S)
        while not self._is_closed:
            now, spent_s = loop.time(), self._spent_s()
            free_at = max(self._free_at, now) + _PARTS * (spent_s - self._counted_s)
            self._free_at, self._counted_s = min(free_at, now + _LONGEST_S), spent_s
            if self._free_at <= now:
                return
            await asyncio.sleep(min(self._free_at - now, _PACE_S))

    def _join(self) -> None:
        self.readers += 1
        if self._task is None and not self._is_closed:
            self._newest, self._counted_s = events.latest_id(self._conn), self._spent_s()
            self._task = asyncio.create_task(self._look(), name="news")

    async def _look(self) -> None:
        while True:
            try:
                newest = events.latest_id(self._conn)
            except apsw.Error:  # the file and the readers are still there: look again
                log.exception("news.not_read")
                newest = self._newest
            if newest == self._newest:
                await self._wait(self._at_least_every_s)
            else:
                self._newest = newest
                self._wake()
                await asyncio.sleep(_PACE_S)
