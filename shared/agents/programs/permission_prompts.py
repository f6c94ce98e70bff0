"""The questions of a turn's program to an approver, each a task beside its lines: the program goes on meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from shared.agents.access import PermissionAnswer, PermissionAsked, Permissions

NOBODY = PermissionAnswer(False, "Nobody can be asked here, so it was not allowed. Go on without it.")


class AsksPeople(Protocol):
    """What the questions need of the program's run."""

    def question_began(self) -> None:
        """Its limits of time stand still."""

    def question_ended(self) -> None:
        """They go on."""

    async def write(self, data: bytes) -> None:
        """Write to its standard input."""


class PermissionPrompts:
    """Of one turn. ``close`` ends those that are open: an answer that comes later goes to nobody."""

    def __init__(self, running: AsksPeople, permissions: Permissions | None) -> None:
        self._running = running
        self._permissions = permissions
        self._open: dict[str, asyncio.Task[None]] = {}

    def begin(self, number: str, asked: PermissionAsked, line: Callable[[PermissionAnswer], bytes]) -> None:
        """Ask, and write the *line* of the answer. *number*: the program's own of this question."""
        if number not in self._open:  # asked twice, it is one question
            self._open[number] = asyncio.create_task(self._answer(number, asked, line))

    def withdraw(self, number: str) -> None:
        """The program does not want the answer any more."""
        if (task := self._open.pop(number, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """The turn is over."""
        tasks = list(self._open.values())
        self._open.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, number: str, asked: PermissionAsked, line: Callable[[PermissionAnswer], bytes]) -> None:
        self._running.question_began()
        try:
            answer = NOBODY if self._permissions is None else await self._permissions.ask(asked)
        finally:
            self._running.question_ended()
        self._open.pop(number, None)
        await self._running.write(line(answer))
