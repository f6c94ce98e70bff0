"""How fast the lines of programs are handled: other turns go on between them, however many wait already."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

SLICE_S, REST_S = 0.0005, 0.002


class Floods:
    """The programs whose lines wait already. All together have a fifth of the event loop at most."""

    def __init__(self) -> None:
        self._next_s = 0.0  # when the next slice of any of them may begin, without its rest

    def rest_s(self, now_s: float) -> float:
        """How long one of them rests whose slice has just ended."""
        begins_s = max(now_s, self._next_s) + REST_S
        self._next_s = begins_s + SLICE_S
        return begins_s - now_s


_FLOODS: "WeakKeyDictionary[asyncio.AbstractEventLoop, Floods]" = WeakKeyDictionary()


class Pace:
    """Of one program: a rest follows each slice of work on lines that waited already.

    In the rests the threads run too. A transaction waits for the interpreter's lock some thirty times.

    Args:
        floods: of the event loop that runs, where none are given.
    """

    def __init__(
        self,
        floods: Floods | None = None,
        clock_s: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._floods = floods or _FLOODS.setdefault(asyncio.get_running_loop(), Floods())
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
            await self._sleep(self._floods.rest_s(self._ended_s))
            self._ended_s = self._clock_s()
