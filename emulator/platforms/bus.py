"""Live news for the chat page and the terminal: what was said, delivered and called, as it happens.

Nothing is kept here. Whoever missed something reads the transcript again; the rows are in :mod:`.store`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

BACKLOG = 1000  # news that a stuck reader may pile up; past that it is cut off and reads the transcript again


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One thing that happened: ``message``, ``delivery``, ``call``, ``typing``, ``notice`` (an answer to a press, shown
    over the chat to whoever pressed) or ``chat``.
    """

    name: str
    data: Mapping[str, Any]


class EventBus:
    """Hands every piece of news to everybody who listens."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[LiveEvent | None]] = set()

    def publish(self, name: str, data: Mapping[str, Any]) -> None:
        news = LiveEvent(name, data)
        for queue in tuple(self._queues):
            if queue.qsize() >= BACKLOG:
                self._end(queue)
            else:
                queue.put_nowait(news)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator["asyncio.Queue[LiveEvent | None]"]:
        """A queue of everything from now on; None means that there will be no more."""
        queue: asyncio.Queue[LiveEvent | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    def close(self) -> None:
        for queue in tuple(self._queues):
            self._end(queue)

    def _end(self, queue: "asyncio.Queue[LiveEvent | None]") -> None:
        self._queues.discard(queue)
        queue.put_nowait(None)
