"""The seams of the product, and what the world puts there: its clock, its chance, and the driver of its writers.

The others need no seam: the event loop is the loop of the world, and it is also its network and its threads; the disk
is SQLite's default VFS; the settings come from the environment, as always.
"""

import asyncio
import random
from collections.abc import Callable, MutableMapping
from typing import Any, cast

import structlog

from shared.core import chance
from shared.core.time import clock
from shared.db.engine import group_commit
from shared.db.engine.group_commit import Writer
from tests.simulation.machine.loop import LANE, SimulatedLoop

BEGAN_MS = 1_800_000_000_000  # 2027-01-15T08:00:00Z


class WorldClock:
    """The machine's clock, which somebody sets: *ahead_ms*. A callback sees the time pass that it has to pay for."""

    def __init__(self, loop: SimulatedLoop, on_pause: Callable[[], None]) -> None:
        self._loop = loop
        self._on_pause = on_pause
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return BEGAN_MS + self.ahead_ms + int(self.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        return self._loop.time() + self._loop.charge

    def pause(self, seconds: float) -> None:
        self._loop.charge += seconds
        self._on_pause()


class LoopDriver:
    """Lets a writer take its turns in the lane of its process, one when the last one's disk is done."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._loop = cast(SimulatedLoop, asyncio.get_running_loop())
        self._is_due = False
        self._rests_until = 0.0

    def wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_at(max(self._rests_until, self._loop.time() + self._loop.charge), self._turn)

    def end(self) -> None:
        while self._writer.turn():
            pass

    def _turn(self) -> None:
        self._is_due = False
        self._writer.turn()
        self._rests_until = self._loop.time() + self._loop.take_charge()


def put(clock_of_world: WorldClock, dice: random.Random, hear: Callable[[str], None]) -> None:
    """Put the world in the place of the machine, for the rest of this Python."""
    clock.run_on(clock_of_world)
    chance.draw_from(dice.randbytes)
    group_commit.drive_by(LoopDriver)

    def tell(_: Any, level: str, event: MutableMapping[str, Any]) -> Any:
        lane = LANE.get(None)
        facts = " ".join(f"{name}={value!r}" for name, value in event.items() if name not in ("event", "exc_info"))
        raised = f" {event['exc_info']!r}" if event.get("exc_info") else ""
        hear(f"{lane}: {event['event']} {facts}{raised}".rstrip())
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.processors.ExceptionRenderer(lambda error: repr(error[1])), tell])
