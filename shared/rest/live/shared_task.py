"""One task for all readers of a stream: it runs while there are any."""

import asyncio


class SharedTask:
    """The readers, their task, and the growth that they wait for. A subclass joins and makes the task.

    Attributes:
        readers: how many there are.
    """

    def __init__(self) -> None:
        self._grown = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self.readers = 0

    async def close(self) -> None:
        """End the stream of every reader."""
        self._is_closed = True
        self._wake()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _leave(self) -> None:
        self.readers -= 1
        if self.readers == 0 and self._task is not None:
            self._task.cancel()
            self._task = None

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()
