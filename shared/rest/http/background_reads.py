"""Reads that take seconds: a few at once, in threads beside the event loop.

A caller that disconnects frees its slot as soon as the read notices that it is abandoned.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw
from starlette.exceptions import HTTPException
from starlette.types import Receive

from shared.db.engine.connection import open_connection
from shared.runtime.app import wait_for_disconnect

T = TypeVar("T")

IsAbandoned = Callable[[], bool]

SLOTS = 2
PATIENCE_S = 10.0


class BackgroundReads:
    """At most *slots* reads at once, each on a connection of its own. A caller waits *patience_s* for a slot.

    The connections stay open: to open one and to prepare its statements anew costs more than most reads.
    """

    def __init__(self, path: Path, *, slots: int = SLOTS, patience_s: float = PATIENCE_S) -> None:
        self._path = path
        self._count = slots
        self._slots = asyncio.Semaphore(slots)
        self._patience_s = patience_s
        self._idle: list[apsw.Connection] = []
        self._is_closed = False
        self.spent_s = 0.0  # of processor time, by all reads so far

    async def read(self, work: Callable[[apsw.Connection], T], receive: Receive) -> T:
        """As ``read_long``, for *work* that ends soon."""
        return await self.read_long(lambda conn, _: work(conn), receive)

    async def read_long(self, work: Callable[[apsw.Connection, IsAbandoned], T], receive: Receive) -> T:
        """Run *work* in a thread and return its result. *work* asks often whether it is abandoned, and then ends.

        Raises:
            HTTPException: no slot became free (503), or the caller disconnected (499).
        """
        reading = asyncio.create_task(self._read(work))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            raise HTTPException(499, "the caller disconnected before the answer was ready")
        finally:
            for task in (reading, leaving):
                task.cancel()
            await asyncio.gather(reading, leaving, return_exceptions=True)

    async def _read(self, work: Callable[[apsw.Connection, IsAbandoned], T]) -> T:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._slots.acquire()
        except TimeoutError:
            sentence = f"too many long reads, such as searches, run at once (limit: {self._count}): try again later"
            raise HTTPException(503, sentence, headers={"Retry-After": "5"}) from None
        is_abandoned = threading.Event()
        running = asyncio.get_running_loop().run_in_executor(None, self._work, work, is_abandoned.is_set)
        running.add_done_callback(lambda _: self._slots.release())  # at the end of the thread, which no timeout stops
        try:
            return await asyncio.shield(running)
        finally:
            is_abandoned.set()

    def _work(self, work: Callable[[apsw.Connection, IsAbandoned], T], is_abandoned: IsAbandoned) -> T:
        conn, begun_s = self._connection(), time.thread_time()
        try:
            found = work(conn, is_abandoned)
        except BaseException:
            conn.close()  # a statement that is half read would hold its state of the database
            raise
        finally:
            self.spent_s += time.thread_time() - begun_s
        self._idle.append(conn)
        if self._is_closed:
            self.close()
        return found

    def _connection(self) -> apsw.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return open_connection(self._path, readonly=True)

    def close(self) -> None:
        """Close the connections; that of a read that still runs is closed when it ends."""
        self._is_closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()
