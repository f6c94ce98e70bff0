"""How fast the lines of one program are handled: other turns go on between them, however many wait already."""

import asyncio
import time
from collections.abc import Awaitable, Callable

SLICE_S, REST_S = 0.0005, 0.002


class Pace:
    """A rest follows each slice of work on lines that waited already: a flood has a fifth of the event loop at most.

    In the rests the threads run too. A transaction waits for the interpreter's lock some thirty times.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock_s = clock_s
        self._sleep = sleep
        self._busy_s = 0.0
        self._began_s = self._ended_s = 0.0

    def begin(self) -> None:
        """A line is there."""
        self._began_s = self._clock_s()
        read_s = self._began_s - self._ended_s
        self._busy_s = 0.0 if read_s > REST_S else self._busy_s + read_s  # the program was silent, or it floods

    async def rest(self) -> None:
        """The line is handled; return when the next one may be."""
        self._ended_s = self._clock_s()
        self._busy_s += self._ended_s - self._began_s
        if self._busy_s > SLICE_S:
            self._busy_s = 0.0
            await self._sleep(REST_S)
            self._ended_s = self._clock_s()
