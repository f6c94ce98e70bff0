"""The supervisor's end of the fork server: ask for a process, hear when it is ready and when it ends."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.base.errors import NotReady
from infra.processes import follow, spawn, stop

STAGE_LIMIT_S = 10.0

Line = Callable[[str, bool], None]
"""Called with each line that a process prints, and whether it came on stderr."""


@dataclass(eq=False)
class ForkedProcess:
    """One forked process. ``code`` is its exit code (negative: a signal), once ``ended`` is done."""

    id: str
    name: str
    on_line: Line
    stage: "_Stage"
    pid: int = 0
    forked: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ready: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ended: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    drained: list[asyncio.Future[None]] = field(default_factory=list)

    async def wait_ready(self, timeout_s: float) -> bool:
        """True when it said so; False when it ended or said nothing in time."""
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self.ready), timeout_s)
        return False

    async def wait_ended(self, timeout_s: float | None = None) -> int | None:
        """Its exit code, with all its output handed over; None when it still runs after the time."""
        try:
            code = await asyncio.wait_for(asyncio.shield(self.ended), timeout_s)
        except TimeoutError:
            return None
        # A child of its own may still hold the pipe: what it prints later is not waited for.
        await asyncio.wait(self.drained, timeout=0.2)
        return code


class _Stage:
    """Our end of the socket of one stage of the fork server."""

    def __init__(self, channel: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._channel: socket.socket | None = channel
        self._fork_client: dict[str, ForkedProcess] = {}
        self._is_retired = False
        self.loaded: asyncio.Future[int] = loop.create_future()
        channel.setblocking(False)
        loop.add_reader(channel, self._hear)

    @property
    def is_open(self) -> bool:
        return self._channel is not None

    def send(self, message: Mapping[str, Any], fds: Sequence[int]) -> None:
        if self._channel is None:
            raise NotReady("the fork server is not running")
        socket.send_fds(self._channel, [json.dumps(message).encode()], fds)

    def add(self, fork: ForkedProcess) -> None:
        self._fork_client[fork.id] = fork

    def retire(self) -> None:
        """Close as soon as the last of its forks has ended; the process ends with its socket."""
        self._is_retired = True
        if not self._fork_client:
            self.close()

    def close(self) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None

    def _hear(self) -> None:
        while self._channel is not None:
            try:
                data = self._channel.recv(1 << 16)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self._lost()
                return
            self._heard(json.loads(data))

    def _heard(self, message: Mapping[str, Any]) -> None:
        if "loaded" in message:
            self.loaded.set_result(message["loaded"])
        elif "forked" in message:
            fork = self._fork_client[message["forked"]]
            fork.pid = message["pid"]
            fork.forked.set_result(fork.pid)
        elif "exited" in message:
            if message["exited"] in self._fork_client:  # else it was a stage
                _end(self._fork_client.pop(message["exited"]), message["code"])
            if self._is_retired and not self._fork_client:
                self.close()

    def _lost(self) -> None:
        """The stage ended; the kernel ended its children."""
        self.close()
        if not self.loaded.done():
            self.loaded.set_exception(NotReady("the fork server ended while it loaded the libraries"))
            self.loaded.exception()  # seen: whoever waits gets it, nobody has to
        for fork in self._fork_client.values():
            _end(fork, -signal.SIGKILL)
        self._fork_client.clear()


def _end(fork: ForkedProcess, code: int) -> None:
    if not fork.ended.done():
        fork.ended.set_result(code)
    if not fork.ready.done():
        fork.ready.set_result(False)


class ForkClient:
    """Starts the fork server and speaks with its stages."""

    def __init__(
        self,
        project: Path,
        environment: Mapping[str, str],
        on_noise: Callable[[str], None],
        on_lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        """*on_lost* is told the exit code of a fork server that ended unasked, and took all its forks along."""
        self._project = project
        self._environment = environment
        self._on_noise = on_noise
        self._on_lost = on_lost
        self._numbers = itertools.count(1)
        self._process: asyncio.subprocess.Process | None = None
        self._first: _Stage | None = None
        self._second: _Stage | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start it; :meth:`wait_loaded` tells when forks can be asked for."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = await spawn(
                [sys.executable, "-m", "emulator.processes.fork_server", str(theirs.fileno()), str(os.getpid())],
                environment=self._environment,
                pass_fds=[theirs.fileno()],
                cwd=self._project,
            )
        self._first = _Stage(ours)
        self._noise = asyncio.get_running_loop().create_task(self._listen(self._process))

    async def wait_loaded(self) -> int:
        """The milliseconds that loading the libraries took.

        Raises:
            NotReady: it ended instead; what it said is in the log.
        """
        if self._first is None:
            raise NotReady("the fork server was not started")
        return await asyncio.shield(self._first.loaded)

    async def renew(self) -> None:
        """Load what our functions share as it is on disk now; later forks have it. Earlier ones go on as they are."""
        if self._first is None:
            raise NotReady("the fork server was not started")
        await self.wait_loaded()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._first.send({"stage": f"stage-{next(self._numbers)}"}, [theirs.fileno()])
        stage, old = _Stage(ours), self._second
        try:
            await asyncio.wait_for(asyncio.shield(stage.loaded), STAGE_LIMIT_S)
        except (NotReady, TimeoutError):
            stage.close()
            self._second = None  # forks of the first stage load everything by themselves
        else:
            self._second = stage
        if old is not None:
            old.retire()

    def fork(
        self,
        name: str,
        entry: str,
        options: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        on_line: Line,
        sockets: Sequence[socket.socket] = (),
    ) -> ForkedProcess:
        """Ask for a process that runs ``entry(options, ready_fd, socket_fds)``."""
        stage = self._second if self._second is not None and self._second.is_open else self._first
        if stage is None:
            raise NotReady("the fork server is not running")
        fork = ForkedProcess(f"{name}-{next(self._numbers)}", name, on_line, stage)
        stage.add(fork)
        pipes = [os.pipe() for _ in range(3)]
        message = {"fork": fork.id, "name": name, "entry": entry, "options": options, "env": environment}
        try:
            stage.send(message, [*(write for _, write in pipes), *(sock.fileno() for sock in sockets)])
        finally:
            for _, write in pipes:
                os.close(write)
        for (read, _), is_error in zip(pipes[:2], (False, True), strict=True):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            fork.drained.append(done)
            _Lines(read, done, on_line, is_error)
        _watch_ready(pipes[2][0], fork)
        return fork

    def signal(self, fork: ForkedProcess, number: int, *, group: bool = False) -> None:
        """Send a signal to the process, or to all that it started too; an ended one is no error."""
        if not fork.ended.done():
            with contextlib.suppress(OSError, NotReady):
                fork.stage.send({"kill": fork.id, "signal": number, "group": group}, [])

    async def stop_fork(self, fork: ForkedProcess, timeout_s: float) -> bool:
        """SIGTERM, wait, SIGKILL to its group. True when it ended by itself."""
        self.signal(fork, signal.SIGTERM)
        if await fork.wait_ended(timeout_s) is not None:
            return True
        self.signal(fork, signal.SIGKILL, group=True)
        await fork.wait_ended(2)
        return False

    async def stop(self) -> None:
        """End the fork server, and with it every process that it still has."""
        self._on_lost = lambda _: None
        for stage in (self._second, self._first):
            if stage is not None:
                stage.close()
        if self._process is not None:
            # It ends with its socket, after it has reaped its children: a signal would leave them as zombies.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 2)
            await stop(self._process, timeout_s=1)
            await self._noise
            self._process = None

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is not None:
            await follow(process.stdout, self._on_noise)
        self._on_lost(await process.wait())


class _Lines(asyncio.Protocol):
    """Splits what comes through a pipe into lines."""

    LONGEST = 1 << 20  # bytes; a longer one is handed over in pieces

    def __init__(self, fd: int, done: asyncio.Future[None], on_line: Line, is_error: bool) -> None:
        self._rest = b""
        self._done = done
        self._on_line = on_line
        self._is_error = is_error
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(fd, "rb", buffering=0)
        self._connecting = loop.create_task(loop.connect_read_pipe(lambda: self, pipe))

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._emit(line)
        if len(self._rest) > self.LONGEST:
            self._emit(self._rest)
            self._rest = b""

    def connection_lost(self, _: Exception | None) -> None:
        if self._rest:
            self._emit(self._rest)
        if not self._done.done():
            self._done.set_result(None)

    def _emit(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        if text:
            self._on_line(text, self._is_error)


def _watch_ready(fd: int, fork: ForkedProcess) -> None:
    """Readable means that the child wrote its byte, or ended without."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        said = os.read(fd, 64)
        loop.remove_reader(fd)
        os.close(fd)
        if said and not fork.ready.done():
            fork.ready.set_result(True)

    loop.add_reader(fd, look)
