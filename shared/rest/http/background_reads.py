"""Reading that takes seconds: in threads beside the event loop, and never much of it at once.

Whoever asked and went away is not read for: their place is free as soon as the work sees that.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw
from starlette.exceptions import HTTPException
from starlette.types import Receive

from shared.db.engine.connection import open_connection
from shared.runtime.app import wait_for_disconnect

T = TypeVar("T")

IsGivenUp = Callable[[], bool]

PLACES = 2
PATIENCE_S = 10.0


class Aside:
    """So many *places*; who finds none waits *patience_s* for one. A piece of work has a connection of its own."""

    def __init__(self, path: Path, *, places: int = PLACES, patience_s: float = PATIENCE_S) -> None:
        self._path = path
        self._count = places
        self._places = asyncio.Semaphore(places)
        self._patience_s = patience_s

    async def read(self, work: Callable[[apsw.Connection, IsGivenUp], T], receive: Receive) -> T:
        """What *work* returns, which asks often whether it is given up: nobody waits any more.

        Raises:
            HTTPException: no place became free (503), or whoever asked went away (499).
        """
        reading = asyncio.create_task(self._read(work))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            raise HTTPException(499, "whoever asked went away")
        finally:
            for task in (reading, leaving):
                task.cancel()
            await asyncio.gather(reading, leaving, return_exceptions=True)

    async def _read(self, work: Callable[[apsw.Connection, IsGivenUp], T]) -> T:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._places.acquire()
        except TimeoutError:
            sentence = f"all places for what takes long are taken ({self._count}): try again later"
            raise HTTPException(503, sentence, headers={"Retry-After": "5"}) from None
        is_given_up = threading.Event()
        running = asyncio.get_running_loop().run_in_executor(None, self._work, work, is_given_up.is_set)
        running.add_done_callback(lambda _: self._places.release())  # when the thread ends, whoever still waits for it
        try:
            return await asyncio.shield(running)
        finally:
            is_given_up.set()

    def _work(self, work: Callable[[apsw.Connection, IsGivenUp], T], is_given_up: IsGivenUp) -> T:
        with contextlib.closing(open_connection(self._path, readonly=True)) as conn:
            return work(conn, is_given_up)
