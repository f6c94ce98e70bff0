"""One answer for all who ask at about the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


_PARTS = 20


class SharedRead(Generic[T]):
    """Keeps an answer, and who asks meanwhile gets the same; who asks while it is read waits for it.

    An answer is kept for *fresh_ms*, or for 20 times as long as it took to read: so all who ask take a twentieth of one
    processor at most, however many they are and however much there is to read.
    """

    def __init__(self, fresh_ms: int) -> None:
        self._fresh_ms = fresh_ms
        self._last: tuple[int, int, T] | None = None
        self._reading = asyncio.Lock()

    async def get(self, read: Callable[[], Awaitable[T]], *, now_ms: int) -> T:
        """The last answer while it is fresh, else a new one. A clock that was set back makes it old as well."""
        async with self._reading:
            if self._last is None or not 0 <= now_ms - self._last[0] < self._last[1]:
                loop = asyncio.get_running_loop()
                begun = loop.time()
                found = await read()
                kept_ms = max(self._fresh_ms, _PARTS * int(1000 * (loop.time() - begun)))
                self._last = (now_ms, kept_ms, found)
            return self._last[2]
