"""Carries out the plan of faults: at its instant, each happens to the computer, or to what surrounds it."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from tests.simulation.agents.models import Models
from tests.simulation.faults import Fault
from tests.simulation.judging import Audit
from tests.simulation.machine.computer import Computer
from tests.simulation.machine.loop import Lane
from tests.simulation.machine.process import STOP_S, Process
from tests.simulation.machine.wires import Host
from tests.simulation.parts import Surroundings
from tests.simulation.platforms.base import Platform

_LASTS_S = 150  # a death in a write or at a call that has not come by then does not come
_AT_A_CALL = ("kill at a call", "power at a call", "lost disk at a call")
OUTSIDE = ("unsteady platform", "platform away", "unsteady models", "models away")  # they harm no process


class Breaking:
    """*counts*: how many faults of each kind there were. *is_over*: there are no more."""

    def __init__(
        self,
        world: Surroundings,
        computer: Computer,
        hosts: Mapping[object, Host],
        platforms: Sequence[Platform],
        models: Models | None,
        faults: Sequence[Fault],
        audit: Audit,
    ) -> None:
        self._world = world
        self._computer = computer
        self._hosts = hosts
        self._platforms = platforms
        self._models = models
        self._faults = faults
        self._audit = audit
        self.counts: Counter[str] = Counter()
        self.is_over = False

    async def work(self) -> None:
        """All faults, and then nothing more."""
        for fault in self._faults:
            await asyncio.sleep(max(0.0, fault.at_s - self._world.now_s()))
            if self.is_over:
                break
            self._world.tell(f"*** {_words(fault)}")
            self.counts[fault.kind] += 1
            if fault.kind not in (*OUTSIDE, "reload"):
                self._audit.disturb(fault.seconds)
            await self._do(fault)
        await asyncio.sleep(_LASTS_S)
        self._computer.disk.dies_in.clear()
        self._computer.wires.on_call = None

    async def _do(self, fault: Fault) -> None:
        computer = self._computer
        if fault.target:
            self._harm(computer.current[fault.target], fault)
        elif fault.kind == "clock":
            computer.clock.ahead_ms += int(fault.amount * 1000)
            self._audit.forget()
        elif fault.kind == "power":
            await computer.lose_power()
        elif fault.kind == "lost disk":
            await computer.lose_disk()
        elif fault.kind == "away, then lost":
            assert computer.litestream is not None
            computer.litestream.is_away = True
            await asyncio.sleep(fault.seconds)
            computer.litestream.is_away = False
            await computer.lose_disk()
        elif fault.kind in _AT_A_CALL:
            computer.wires.calls_left, computer.wires.on_call = int(fault.amount), partial(self._strike, fault)
        else:
            self._disturb(fault)

    def _harm(self, process: Process, fault: Fault) -> None:
        match fault.kind:
            case "kill":
                process.kill()
            case "kill in a write":
                self._computer.disk.dies_in[process.lane] = int(fault.amount)
            case "freeze":
                self._computer.loop.sleep_lane(process.lane, fault.seconds)
            case "reload":
                self._audit.expect_start()
                self._computer.start(fault.target)
                dice: random.Random = self._world.dice(f"reload {fault.at_s}")
                self._computer.loop.call_later(dice.uniform(0, 2), self._end, process)

    def _end(self, process: Process) -> None:
        """It has some seconds to end in good order."""
        process.stop()
        self._computer.loop.call_later(STOP_S - 0.1, self._look_after, process)

    def _look_after(self, process: Process) -> None:
        """Where it has not ended by now, it is killed."""
        if not process.is_dead:
            self._audit.disturb(0)

    def _strike(self, fault: Fault, caller: Lane) -> None:
        """The platform has just taken a call of that process, and has not answered yet."""
        match fault.kind:
            case "kill at a call":
                self._computer.loop.kill(caller)
            case "power at a call":
                asyncio.create_task(self._computer.lose_power())  # noqa: RUF006 - it ends with the world
            case _:
                asyncio.create_task(self._computer.lose_disk())  # noqa: RUF006

    def _disturb(self, fault: Fault) -> None:
        """For so many seconds, something around the processes works badly or not at all."""
        computer = self._computer
        if fault.kind in ("platform away", "models away"):
            address = Models.ADDRESS if fault.kind == "models away" else self._platform(fault).address
            computer.wires.unplug(address)
            computer.loop.call_later(fault.seconds, computer.wires.hosts.__setitem__, address, self._hosts[address])
        elif fault.kind == "litestream dies":
            assert computer.litestream is not None
            computer.litestream.end()
            computer.loop.call_later(1.0, computer.restart_litestream)
        else:
            disturbed, name, value, healed = {
                "failing disk": (computer.disk, "fails", fault.amount, 0.0),
                "full disk": (computer.disk, "is_full", True, False),
                "slow disk": (computer.disk, "slow_s", fault.amount, 0.0),
                "unsteady platform": (self._platform(fault), "unsteady", fault.amount, 0.0),
                "unsteady models": (self._models, "unsteady", fault.amount, 0.0),
                "bucket away": (computer.litestream, "is_away", True, False),
            }[fault.kind]
            setattr(disturbed, name, value)
            computer.loop.call_later(fault.seconds, setattr, disturbed, name, healed)

    def _platform(self, fault: Fault) -> Platform:
        """One of those that the world has."""
        return self._world.dice(f"platform {fault.at_s}").choice(self._platforms)


def _words(fault: Fault) -> str:
    return str(fault).partition(" s  ")[2]
