"""One answer for all who ask at about the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Keeps an answer for *fresh_ms*; who asks meanwhile gets the same, and who asks while it is read waits for it."""

    def __init__(self, fresh_ms: int) -> None:
        self._fresh_ms = fresh_ms
        self._last: tuple[int, T] | None = None
        self._reading = asyncio.Lock()

    async def get(self, read: Callable[[], Awaitable[T]], *, now_ms: int) -> T:
        """The last answer while it is fresh, else a new one. A clock that was set back makes it old as well."""
        async with self._reading:
            if self._last is None or not 0 <= now_ms - self._last[0] < self._fresh_ms:
                self._last = (now_ms, await read())
            return self._last[1]
