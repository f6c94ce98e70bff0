"""One answer for all callers at about the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


_PARTS = 20


class SharedRead(Generic[T]):
    """Keeps an answer for a while, for all callers. A caller that asks while it is being read waits for it.

    An answer is kept for *fresh_ms*, or for 20 times the processor time of its reading if that is longer. So all
    callers together take at most a twentieth of one processor. The time that the reading waits does not count.
    """

    def __init__(self, fresh_ms: int) -> None:
        self._fresh_ms = fresh_ms
        self._last: tuple[int, int, T] | None = None
        self._expired = 0  # how often
        self._reading = asyncio.Lock()

    async def get(self, read: Callable[[], Awaitable[tuple[T, float]]], *, now_ms: int) -> T:
        """The last answer while it is fresh, otherwise a new one. After the clock was set back, it is not fresh.

        Args:
            read: returns the answer, and the processor time that it took, in seconds.
        """
        async with self._reading:
            if self._last is None or not 0 <= now_ms - self._last[0] < self._last[1]:
                expired = self._expired
                found, spent_s = await read()
                kept_ms = max(self._fresh_ms, int(1000 * _PARTS * spent_s))
                self._last = (now_ms, kept_ms if expired == self._expired else 0, found)
                return found
            return self._last[2]

    def expire(self) -> None:
        """Drop the answer, also one that is being read: something has changed that the next answer must show."""
        self._expired += 1
        self._last = None
