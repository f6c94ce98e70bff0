"""The functions as processes: started, replaced when their code changes, restarted when they crash.

The supervisor owns each function's listening socket, which outlives every process of the function, so no connection is
ever refused. A new process takes over the same socket and reports that it is ready; only then the old one stops.
"""

import asyncio
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from emulator.base.console import Console
from emulator.base.errors import NotReady
from emulator.processes.fork_client import ForkClient, ForkedProcess
from emulator.system.gateway import Upstream
from infra.template.specs import FunctionSpec

READY_LIMIT_S = 20.0  # the machine may be busy, and some functions give way to everything on it
STOP_LIMIT_S = 3.0
DRAIN_LIMIT_S = 10.0  # for a replaced process to finish its work; a longer turn is retried from its row
STEADY_S = 10.0  # a process that lived this long resets the count of crashes
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.1, 5.0


@dataclass(eq=False)
class Function:
    """One function and its current process.

    ``environment``: of its next process; ``runs_with``: of the current one. ``stale``: why the running code is not the
    code on disk. ``hangs``: why it did not answer at the last look.
    """

    spec: FunctionSpec
    sock: socket.socket
    environment: Mapping[str, str]
    current: ForkedProcess | None = None
    runs_with: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    crashes: int = 0
    stale: str | None = None
    problem: str | None = "it is starting"
    hangs: str | None = None
    ready_ms: float = 0.0
    started_at: float = 0.0
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def port(self) -> int:
        return int(self.sock.getsockname()[1])

    @property
    def is_up(self) -> bool:
        return self.problem is None and self.hangs is None

    @property
    def upstream(self) -> Upstream:
        return Upstream(self.port, self.problem)

    def facts(self) -> dict[str, Any]:
        """What ``/_emulator/status`` says about it."""
        return {
            "name": self.name,
            "url": f"http://127.0.0.1:{self.port}",
            "pid": self.current.pid if self.current else None,
            "generation": self.generation,
            "up": self.is_up,
            "hangs": self.problem is None and self.hangs is not None,
            "problem": self.problem or self.hangs,
            "stale": self.stale,
            "ready_ms": round(self.ready_ms, 1),
        }


class Functions:
    """The processes of all functions, whatever the functions do."""

    def __init__(self, fork_client: ForkClient, console: Console) -> None:
        self._fork_client = fork_client
        self._console = console
        self._functions: dict[str, Function] = {}
        self._processes: set[ForkedProcess] = (
            set()
        )  # all that have not ended: current, coming up, or replaced and still busy
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._may_start = asyncio.Event()  # cleared while a drill holds them dead
        self._may_start.set()

    @property
    def all(self) -> list[Function]:
        return list(self._functions.values())

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def add(self, function: Function) -> None:
        self._functions[function.name] = function

    async def start(self, function: Function) -> None:
        """Start its first process.

        Raises:
            NotReady: with the last lines that it printed.
        """
        fork = await self._launch(function)
        if fork is None:
            last_lines = self._console.tail(function.name)
            raise NotReady(
                f"{function.name} did not become ready ({function.problem}). "
                + (f"Its last lines:\n{last_lines}" if last_lines else "It printed nothing.")
            )

    async def reload(self, names: Iterable[str], *, because: str) -> None:
        """Replace the processes of these functions, all at once. The old one stays if the new one does not start."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._reload(self._functions[name], because))

    async def stop(self) -> list[str]:
        """Stop all functions; returns the names of those that had to be killed."""
        self._stopping = True
        for function in self._functions.values():
            function.problem = "the emulator is stopping"
        for task in self._tasks:  # first, so that nothing is restarted from here on
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        processes = list(self._processes)
        ended = await asyncio.gather(*(self._fork_client.stop_fork(process, STOP_LIMIT_S) for process in processes))
        for function in self._functions.values():
            function.sock.close()
        return sorted({process.name for process, by_itself in zip(processes, ended, strict=True) if not by_itself})

    async def kill(self) -> list[int]:
        """Kill every process at once, and start none before :meth:`revive`; returns their process ids."""
        self._may_start.clear()
        processes = list(self._processes)
        for each in processes:
            self._fork_client.signal(each, signal.SIGKILL, group=True)
        await asyncio.gather(*(each.wait_ended() for each in processes))
        return sorted(each.pid for each in processes)

    def revive(self) -> None:
        """Start them again after :meth:`kill`."""
        self._may_start.set()

    async def _reload(self, function: Function, because: str) -> None:
        async with function.changing:
            if self._stopping or not self._may_start.is_set():
                return
            old, was_up = function.current, function.problem is None
            self._console.forget(function.name)
            fork = await self._launch(function)
            if fork is not None:
                self._console.event(
                    "watch",
                    f"{because} changed → {function.name} reloaded in {function.ready_ms:.0f} ms",
                    function=function.name,
                    ms=round(function.ready_ms, 1),
                    generation=function.generation,
                )
                if old is not None:
                    self._later(self._drain(function, old))
                return
            function.stale = f"what is on disk did not start ({function.problem})"
            if was_up:
                function.problem = None
            self._console.event(
                "watch",
                f"{because} changed → {function.name} kept at generation {function.generation}: {function.stale}",
                level="error",
                function=function.name,
            )

    async def _launch(self, function: Function) -> ForkedProcess | None:
        """Start a process and make it the current one; None when it did not become ready (``problem`` says why)."""
        begun, environment = time.monotonic(), function.environment
        fork = self._fork_client.fork(
            function.name,
            "emulator.processes.entrypoints:serve",
            {"name": function.name, "timeout_ms": function.spec.timeout_ms},
            environment,
            on_line=lambda text, is_error: self._console.line(function.name, text, is_error),
            sockets=[function.sock],
        )
        self._processes.add(fork)
        fork.ended.add_done_callback(lambda _: self._processes.discard(fork))
        if not await fork.wait_ready(READY_LIMIT_S):
            code = fork.ended.result() if fork.ended.done() else None
            if code is None:
                await self._fork_client.stop_fork(fork, 0.2)
                function.problem = f"it was not ready within {READY_LIMIT_S:.0f} s"
            else:
                await fork.wait_ended()
                function.problem = f"it {_ending(code)} before it was ready"
            return None
        function.current, function.runs_with = fork, environment
        function.generation += 1
        function.problem = function.stale = None
        function.started_at = time.monotonic()
        function.ready_ms = (function.started_at - begun) * 1000
        self._later(self._keep(function, fork))
        return fork

    async def _keep(self, function: Function, fork: ForkedProcess) -> None:
        """Restart the function when its current process ends by itself. A reload may come first, and begin it anew."""
        code = await fork.wait_ended()
        async with function.changing:
            if self._stopping or function.current is not fork:
                return
            function.current = None
        if time.monotonic() - function.started_at > STEADY_S:
            function.crashes = 0
        while not self._stopping:
            function.crashes += 1
            backoff_s = min(FIRST_BACKOFF_S * 2 ** (function.crashes - 1), LAST_BACKOFF_S)
            function.problem = f"it {_ending(code)} and is restarted"
            self._console.event(
                function.name,
                f"{_ending(code)}; restarting it in {backoff_s:.1f} s",
                level="error",
                code=code,
            )
            await asyncio.sleep(backoff_s)
            await self._may_start.wait()
            async with function.changing:
                if function.current is not None:
                    return
                if await self._launch(function) is not None:
                    self._console.event(function.name, f"is up again (generation {function.generation})")
                    return
            code = 1

    async def _drain(self, function: Function, old: ForkedProcess) -> None:
        if not await self._fork_client.stop_fork(old, DRAIN_LIMIT_S):
            self._console.event(
                function.name,
                f"the replaced process was still busy after {DRAIN_LIMIT_S:.0f} s and was killed",
                level="warning",
            )

    def _later(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ending(code: int | None) -> str:
    if code is None:
        return "ended"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with code {code}"
