"""A time limit for many waits at once. It costs one timer for all of them; ``asyncio.timeout`` costs one for each."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """Waits for futures, for each at most *limit_s* seconds; for one event loop."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._until: dict[asyncio.Future[object], float] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, future: "asyncio.Future[T]") -> T:
        """The result of *future*.

        Raises:
            TimeoutError: it has none within the limit, and gets none any more.
        """
        loop = asyncio.get_running_loop()
        self._until[future] = loop.time() + self._limit_s  # type: ignore[index]  # of any result
        if self._timer is None:
            self._timer = loop.call_later(self._limit_s, self._give_up, loop)
        try:
            return await future
        finally:
            del self._until[future]  # type: ignore[arg-type]

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the waits whose time is over, and look again when it is over for the next one."""
        self._timer = None
        for future, until_s in self._until.items():
            if until_s > loop.time():
                self._timer = loop.call_at(until_s, self._give_up, loop)
                return
            if not future.done():
                future.set_exception(TimeoutError())
