"""Leaps over the stretches of a week in which nothing is due, as ``emulator clock`` does.

While nothing is under way and nothing is broken, the wall clock runs ahead, at most to the next instant at which
something is due by the rows. What the processes would have done in a stretch that is leapt over: ticks that find
nothing, and polls. They see the clock of a machine that has slept.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import apsw

from emulator.storage import due
from shared.db.engine.connection import open_connection
from tests.simulation.faults import Fault
from tests.simulation.machine.computer import Computer
from tests.simulation.parts import Query, Work, WorldPart

_LOOKS_S = 4.0
_SWEEPS_S = 130.0  # at the end: so that two sweeps prune what is old by then
_SHORTEST_MS = 1000
_AFTER_A_FAULT_S = 10.0  # the clock keeps its pace during a fault, and so long afterwards


class Leaps(WorldPart):
    """Lets the wall clock come to *until_ms* in *span_s* seconds of the world's own time, or later."""

    def __init__(self, computer: Computer, faults: Sequence[Fault], *, until_ms: int, span_s: float) -> None:
        self._computer = computer
        self._faults = faults
        self._began_ms, self._until_ms, self._span_s = computer.clock.wall_ms(), until_ms, span_s
        self.leapt_ms = 0

    def work(self) -> Sequence[Work]:
        return [self._go()]

    def counts(self, query: Query) -> Counter[str]:
        return Counter({"virtual seconds leapt over": self.leapt_ms // 1000})

    async def _go(self) -> None:
        clock = self._computer.clock
        while (now_ms := clock.wall_ms()) < self._until_ms:
            aim_ms = self._began_ms + int((self._until_ms - self._began_ms) * self._computer.loop.time() / self._span_s)
            to_ms = self._next_stop(now_ms, min(aim_ms, self._until_ms))
            if to_ms - now_ms >= _SHORTEST_MS or to_ms == self._until_ms:
                clock.ahead_ms += to_ms - now_ms
                self.leapt_ms += to_ms - now_ms
            await asyncio.sleep(_LOOKS_S)
        await asyncio.sleep(_SWEEPS_S)

    def _next_stop(self, now_ms: int, aim_ms: int) -> int:
        """How far the clock may leap: not at all while something is under way or broken."""
        if aim_ms <= now_ms or not self._computer.is_on or self._is_disturbed():
            return now_ms
        try:
            with closing(open_connection(self._computer.db, readonly=True)) as conn:
                if not (due.is_idle(conn, now_ms=now_ms) and due.is_planned(conn)):
                    return now_ms
                return min(aim_ms, due.next_due(conn, now_ms=now_ms) or aim_ms)
        except apsw.Error:
            return now_ms

    def _is_disturbed(self) -> bool:
        now_s = self._computer.loop.time()
        return any(each.at_s <= now_s <= each.at_s + each.seconds + _AFTER_A_FAULT_S for each in self._faults)
