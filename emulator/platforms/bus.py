"""Live events for the chat page and the terminal: messages, deliveries and calls as they happen.

The bus keeps the last events in memory, so that a reader whose connection was cut gets what it missed. A reader that
missed more reads the transcript again; :mod:`.store` holds the rows.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

BACKLOG = 1000  # events that a slow subscriber may queue; beyond that, the bus ends its subscription
KEEP = 1000  # events that a reader may miss and still get


class LiveEvent(msgspec.Struct, frozen=True):
    """One event: ``message``, ``delivery``, ``call``, ``typing``, ``draft``, ``chat``, ``modal`` or ``notice``.

    A ``message`` names a message that is new, changed or deleted. A ``notice`` is the answer to a button press, and a
    ``modal`` a form: only the person who pressed sees them. *number* counts the events of this bus.
    """

    name: str
    data: Mapping[str, Any]
    number: int = 0


class EventBus:
    """Hands every event to every subscriber."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[LiveEvent | None]] = set()
        self._name, self._number = secrets.token_hex(4), 0
        self._recent: deque[LiveEvent] = deque(maxlen=KEEP)

    def publish(self, name: str, data: Mapping[str, Any]) -> None:
        self._number += 1
        event = LiveEvent(name, data, self._number)
        self._recent.append(event)
        for queue in tuple(self._queues):
            if queue.qsize() >= BACKLOG:
                self._end(queue)
            else:
                queue.put_nowait(event)

    def mark(self, event: LiveEvent | None = None) -> str:
        """The place of *event* in the stream; without one, the place after the newest."""
        return f"{self._name}-{self._number if event is None else event.number}"

    def missed(self, mark: str) -> list[LiveEvent] | None:
        """The events after *mark*; None if some of them are gone, or if another run of the emulator made the mark."""
        name, _, number = mark.partition("-")
        if name != self._name or not number.isdecimal() or not number.isascii():
            return None
        missing = self._number - int(number)
        if not 0 <= missing <= len(self._recent):
            return None
        return list(self._recent)[len(self._recent) - missing :]

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
