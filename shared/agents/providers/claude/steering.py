"""What a running ``claude`` is told beside its question.

Its standard input stays open for that until the turn is over. A line that comes while a tool runs joins the turn when
the tool has answered. The program says of each what becomes of it::

    queued ──> started ──> completed
          └──> cancelled

Source: what 2.1.330 does. A line that comes while the model answers would begin a turn of its own; so the provider
tells only while a tool runs, and where that came too late, the turn goes on until the line had its answer.
"""

import asyncio
import uuid

from shared.agents.programs.run import ProgramRun
from shared.agents.providers.claude import invocation
from shared.agents.providers.claude.stream import ClaudeHeard
from shared.core import chance


class ClaudeSteering:
    """Of one turn.

    Attributes:
        tools: the calls of tools that are open.
    """

    def __init__(self, running: ProgramRun) -> None:
        self.tools: set[str] = set()
        self._running = running
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._queued: set[str] = set()
        self._is_over = False

    @property
    def hears(self) -> bool:
        """Whether what is told now joins the turn."""
        return bool(self.tools) and not self._is_over

    @property
    def owes_an_answer(self) -> bool:
        """Whether the program took something that it has not begun to read."""
        return bool(self._queued)

    async def tell(self, text: str) -> bool:
        """Tell the turn *text* too; whether the program took it."""
        if not self.hears:
            return False
        name = str(uuid.UUID(bytes=chance.token_bytes(16), version=4))
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked[name] = taken
        await self._running.write(invocation.further(text, name))
        return await taken

    def hear(self, seen: ClaudeHeard) -> None:
        """The program says what becomes of a line."""
        asked = self._asked.get(seen.line)
        if asked is None:
            return  # the question
        if seen.state == "queued":
            self._queued.add(seen.line)
        else:
            self._queued.discard(seen.line)
        if not asked.done():
            asked.set_result(seen.state != "cancelled")

    def close(self) -> None:
        """The turn is over: what was not taken by now will not be."""
        self._is_over = True
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(False)
