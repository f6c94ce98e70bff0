"""One event loop for the whole world, in virtual time: nothing waits, and chance alone decides who comes next.

The callbacks of one process stand in one *lane* and keep their order, as asyncio promises and the product relies on.
Between lanes, the seed chooses. A lane can sleep (a frozen process, or one that waits for its disk), and die: then its
callbacks are dropped where they stand. That is no cancellation: a killed process runs no ``finally``.
"""

# mypy: disable-error-code="override"
# What asyncio gives as it likes, such as arguments of any number, is taken here as it comes.

import asyncio
import contextvars
import hashlib
import heapq
import random
import select
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tests.simulation.machine.doors import Doorkeeper

MOST_STEPS = 8_000_000  # of one world: a loop that turns without an end is a fault of a world, and is told

LANE: contextvars.ContextVar["Lane"] = contextvars.ContextVar("lane")


class Stuck(Exception):
    """Nothing will ever happen again in this world, or something happens without an end."""


class Lane:
    """The callbacks of one process, in order. *on_death* is called once it is dead and none of its code runs."""

    def __init__(self, name: str, on_death: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.wakes_at = 0.0
        self.is_dead = False
        self.on_death = on_death

    def __repr__(self) -> str:
        return self.name


def context_of(lane: Lane) -> contextvars.Context:
    """A context in which everything that is asked for belongs to *lane*."""
    context = contextvars.copy_context()
    context.run(LANE.set, lane)
    return context


class Wires(Protocol):
    """What connects the processes of the world."""

    async def connect(self, address: object, make: Callable[[], asyncio.Protocol]) -> tuple[Any, Any]:
        """A transport to what listens at *address*, and the protocol that *make* gives."""


class _Promise(asyncio.Future[Any]):
    """Hashes by its number, not by its place in memory, so that a set of them has one order."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.number = number

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[Any]):
    """A task that hashes likewise, and knows its lane."""

    def __init__(self, number: int, lane: Lane, coro: Coroutine[Any, Any, Any], **given: Any) -> None:
        self.number, self.lane = number, lane  # first: the loop's list of tasks hashes it
        super().__init__(coro, **given)

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module. *charge* is what the disk and blocking waits cost the callback that runs, in seconds."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.outside = Lane("world")
        LANE.set(self.outside)
        self.wires: Wires | None = None
        self.charge = 0.0
        self.steps = 0
        self.order = hashlib.blake2b(digest_size=16)  # of lane and instant of each callback
        self._dice = dice
        self._now = 0.0
        self._numbers = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._lanes = [self.outside]
        self._running: Lane | None = None
        self._readers: dict[object, tuple[Lane, int, asyncio.Handle]] = {}  # by descriptor, or by what has one
        self._polled: dict[int, object] = {}
        self._poll = select.poll()
        self.on_step: Callable[[], None] = lambda: None  # after each callback
        self.on_task: Callable[[NumberedTask], None] = lambda _: None  # before it begins
        self._grave: list[object] = []  # of the dead: what nothing refers to would be closed, and would run on

    # What the world does with it.

    def lane(self, name: str, on_death: Callable[[], None]) -> Lane:
        self._lanes.append(lane := Lane(name, on_death))
        return lane

    def begin(self, lane: Lane, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run *work* as a task of *lane*."""
        return self.create_task(work, context=context_of(lane))

    def kill(self, lane: Lane) -> None:
        """Let it run no more; one that runs at this moment ends with its callback."""
        if not lane.is_dead:
            lane.is_dead = True
            if lane is not self._running:
                self._bury(lane)

    def lanes_of_processes(self) -> list[Lane]:
        """All that live, without the world's own."""
        return [lane for lane in self._lanes if lane is not self.outside]

    def sleep_lane(self, lane: Lane, seconds: float) -> None:
        lane.wakes_at = max(lane.wakes_at, self._now + seconds)

    def take_charge(self) -> float:
        """What the callback that runs has cost so far; from now on it counts anew."""
        taken, self.charge = self.charge, 0.0
        return taken

    def _bury(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        self._grave += [lane.ready, *(each for each in asyncio.all_tasks(self) if each.lane is lane)]  # type: ignore[attr-defined]
        for fd in [fd for fd, (of, _, _) in self._readers.items() if of is lane]:
            self.remove_reader(fd)
        lane.on_death()

    # What asyncio and the product call.

    def time(self) -> float:
        return self._now

    def create_future(self) -> "asyncio.Future[Any]":
        self._numbers += 1
        return _Promise(self._numbers, self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None, **_: Any) -> "asyncio.Task[Any]":
        self._numbers += 1
        lane = LANE.get() if context is None else context[LANE]
        task = NumberedTask(self._numbers, lane, coro, loop=self, name=name, context=context)
        self.on_task(task)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        lane = LANE.get() if context is None else context.get(LANE, self.outside)
        lane.ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        """What another thread tells the loop: not before that thread has paid for what it did."""
        if self.charge:
            return self.call_later(self.charge, callback, *args, context=context)
        return self.call_soon(callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":
        """Done in one piece, a moment later; it takes as long as its disk does."""
        future = self.create_future()

        def work() -> None:
            result, error = None, None
            try:
                result = func(*args)
            except Exception as found:  # noqa: BLE001 - it is the caller's
                error = found
            self.call_later(self.take_charge(), settle, result, error)

        def settle(result: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.call_later(self._dice.uniform(0, 0.002), work)
        return future

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        self._readers[fd] = LANE.get(), number, asyncio.Handle(callback, args, self, None)
        self._polled[number] = fd
        self._poll.register(number, select.POLLIN)

    def remove_reader(self, fd: Any) -> bool:
        """Also of a socket that is closed, whose number may be another's by now."""
        if fd not in self._readers:
            return False
        _, number, handle = self._readers.pop(fd)
        handle.cancel()
        if self._polled.get(number) is fd:
            del self._polled[number]
            self._poll.unregister(number)
        return True

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async def create_connection(self, make: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self.wires is not None
        return await self.wires.connect((host, port), make)

    async def create_unix_connection(self, make: Any, path: Any = None, **_: Any) -> Any:
        assert self.wires is not None
        return await self.wires.connect(str(path), make)

    async def create_unix_server(self, make: Any, path: Any = None, *, sock: Any = None, **_: Any) -> Any:
        return Doorkeeper(self, sock, make)

    def _run_once(self) -> None:
        self._take_due()
        if self._readers:
            self._take_kicks()
        awake = [lane for lane in self._lanes if lane.ready and lane.wakes_at <= self._now]
        if not awake:
            self._leap()
            return
        lane = awake[0] if len(awake) == 1 else self._dice.choice(awake)
        handle = lane.ready.popleft()
        if handle.cancelled():
            return
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stuck(f"{MOST_STEPS} callbacks, and no end at {self._now:.3f} s")
        self.order.update(f"{lane.name} {self._now}\n".encode())
        self._running = lane
        try:
            handle._run()
        finally:
            self._running = None
        self.on_step()
        if lane.is_dead:
            self._grave.append(handle)
            self._bury(lane)
        elif self.charge:
            self.sleep_lane(lane, self.charge)
        self.charge = 0.0

    def _take_due(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            timer = heapq.heappop(self._timers)[2]
            lane = timer._context.get(LANE, self.outside)  # type: ignore[attr-defined]
            if lane.is_dead:
                self._grave.append(timer)
            elif not timer.cancelled():
                lane.ready.append(timer)

    def _take_kicks(self) -> None:
        for number, _ in self._poll.poll(0):
            lane, _, handle = self._readers[self._polled[number]]
            if handle not in lane.ready:
                lane.ready.append(handle)

    def _leap(self) -> None:
        """To the next instant at which something happens."""
        instants = [lane.wakes_at for lane in self._lanes if lane.ready]
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if self._timers:
            instants.append(self._timers[0][0])
        if not instants:
            raise Stuck("nothing is left that could happen")
        self._now = max(self._now, min(instants))
