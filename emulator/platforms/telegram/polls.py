"""Long polling: a call of getUpdates waits for the next update, and a second call ends the first.

Source: https://core.telegram.org/bots/api#getupdates; the conflict after the open source of the server.
"""

import asyncio
from contextlib import suppress
from typing import Any

from emulator.platforms.config import Clock
from emulator.platforms.telegram.calls import TelegramError
from emulator.platforms.telegram.updates import UpdateDelivery


class UpdatePolls:
    """At most one waiting call."""

    def __init__(self, clock: Clock, updates: UpdateDelivery) -> None:
        self._clock, self._updates = clock, updates
        self._waiting: asyncio.Future[bool] | None = None

    async def wait(self, *, offset: int, limit: int, timeout_s: int) -> list[dict[str, Any]]:
        """The pending updates, or the first ones within *timeout_s*. Raises 409 where another call takes over."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(False)
        deadline_ms = self._clock.now_ms() + timeout_s * 1000
        while True:
            found = self._updates.queue.take(offset=offset, limit=limit)
            left_ms = deadline_ms - self._clock.now_ms()
            if found or left_ms <= 0:
                return found
            await self._next(left_ms)

    async def _next(self, left_ms: int) -> None:
        """Return with the next update, or after *left_ms*."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        slept = asyncio.create_task(self._clock.sleep(left_ms))
        news = asyncio.create_task(self._updates.news())
        try:
            await asyncio.wait((waiting, slept, news), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (slept, news):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if waiting.done():
            raise TelegramError(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
            )
        waiting.cancel()
