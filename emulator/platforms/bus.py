"""Live events for the chat page and the terminal: messages, deliveries and calls as they happen.

The bus stores nothing. A reader that missed events reads the transcript again; :mod:`.store` holds the rows.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

BACKLOG = 1000  # events that a slow subscriber may queue; beyond that, the bus ends its subscription


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One event: ``message``, ``delivery``, ``call``, ``typing``, ``chat`` or ``notice``.

    A ``notice`` is the answer to a button press, which only the person who pressed sees.
    """

    name: str
    data: Mapping[str, Any]


class EventBus:
    """Hands every event to every subscriber."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[LiveEvent | None]] = set()

    def publish(self, name: str, data: Mapping[str, Any]) -> None:
        event = LiveEvent(name, data)
        for queue in tuple(self._queues):
            if queue.qsize() >= BACKLOG:
                self._end(queue)
            else:
                queue.put_nowait(event)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator["asyncio.Queue[LiveEvent | None]"]:
        """A queue of all events from now on; None ends it."""
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
