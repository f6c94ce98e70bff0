"""A provider's continuation on its way into the session's row, while the turn still runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

Save = Callable[[str], Awaitable[None]]
"""Writes a continuation under the turn's claim. It raises nothing: a turn goes on without it."""

SaveOfProvider = Callable[[str, str], Awaitable[None]]
"""The same, with the name of the provider that gave it."""


class RunningContinuation:
    """The continuation that the provider gave last.

    It is written as soon as the provider gives it: if dispatch is killed later in the turn, the next attempt goes on in
    the same conversation. The write runs beside the turn, so that a long lock does not hold up the agent. What the
    session has already is not written again. Leaving the context waits for the write, unless the turn's settlement
    writes the same.

    Args:
        stored: the session's continuation before the turn.
    """

    def __init__(self, stored: str | None, save: Save) -> None:
        self.value: str | None = None
        self._stored = stored
        self._save = save
        self._writing: asyncio.Task[None] | None = None

    def set(self, continuation: str) -> None:
        """Begin to write *continuation*."""
        self.value = continuation
        if continuation != self._stored and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self.value is not None and self.value != self._stored:
            value = self.value  # the provider may give another one during the write
            await self._save(value)
            self._stored = value

    def leave_to_settlement(self) -> None:
        """Write nothing more: the turn's settlement writes the value. A short turn thus writes it once."""
        if self._writing is not None:
            self._writing.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writing is not None and not self._writing.cancelling():
            await asyncio.wait([self._writing])
