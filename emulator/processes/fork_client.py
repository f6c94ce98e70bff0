"""The supervisor's side of the fork server: requests processes, and learns when each is ready and when it ends."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from emulator.base.errors import NotReady
from emulator.processes.start import Started, start_fork_server
from infra.processes import kill_group

LOAD_LIMIT_S = 20.0  # for a new fork server to load the libraries and our code

OnLine = Callable[[str, bool], None]
"""Called with each line that a process prints, and whether it came from stderr."""


@dataclass(eq=False)
class ForkedProcess:
    """One forked process. The result of ``ended`` is its exit code; a negative code is a signal."""

    id: str
    name: str
    on_line: OnLine
    server: "_Server"
    pid: int = 0
    forked: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ready: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ended: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    drained: list[asyncio.Future[None]] = field(default_factory=list)

    async def wait_ready(self, timeout_s: float) -> bool:
        """True when the process reported that it is ready; False when it ended or was silent for too long."""
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self.ready), timeout_s)
        return False

    async def wait_ended(self, timeout_s: float | None = None) -> int | None:
        """Its exit code, after all its output was handed over; None when it still runs after *timeout_s*."""
        try:
            code = await asyncio.wait_for(asyncio.shield(self.ended), timeout_s)
        except TimeoutError:
            return None
        # A child of the process may still hold the pipe; do not wait for what that child prints.
        await asyncio.wait(self.drained, timeout=0.2)
        return code


class _Server:
    """One fork server: its process, and our end of the socket to it."""

    def __init__(self, started: Started, on_line: OnLine) -> None:
        loop = asyncio.get_running_loop()
        self.started = started
        self.ended: asyncio.Future[int] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()
        _Lines(started.output, self.drained, on_line, is_error=False)
        threading.Thread(target=self._wait, args=(loop,), daemon=True).start()
        self._channel: socket.socket | None = started.channel
        self._forks: dict[str, ForkedProcess] = {}
        self._is_retired = False
        self.loaded: asyncio.Future[int] = loop.create_future()
        started.channel.setblocking(False)
        loop.add_reader(started.channel, self._read)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self.started.process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self.ended.set_result, code)

    async def end(self, patience_s: float) -> None:
        """Wait so long, then SIGTERM, and SIGKILL to its group a second later."""
        self.close()
        pid = self.started.process.pid
        for timeout_s, act in ((patience_s, self.started.process.terminate), (1, lambda: kill_group(pid))):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.ended), timeout_s)
                return
            act()
        await self.ended

    def send(self, message: Mapping[str, Any], fds: Sequence[int]) -> None:
        if self._channel is None:
            raise NotReady("the fork server is not running")
        socket.send_fds(self._channel, [json.dumps(message).encode()], fds)

    def add(self, fork: ForkedProcess) -> None:
        self._forks[fork.id] = fork

    def retire(self) -> None:
        """Close the socket when the last of its forks has ended; the process ends with its socket."""
        self._is_retired = True
        if not self._forks:
            self.close()

    def close(self) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None

    def _read(self) -> None:
        while self._channel is not None:
            try:
                data = self._channel.recv(1 << 16)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self._end_forks()
                return
            self._handle(json.loads(data))

    def _handle(self, message: Mapping[str, Any]) -> None:
        if "loaded" in message:
            self.loaded.set_result(message["loaded"])
        elif "forked" in message:
            fork = self._forks[message["forked"]]
            fork.pid = message["pid"]
            fork.forked.set_result(fork.pid)
        elif "exited" in message:
            _end(self._forks.pop(message["exited"]), message["code"])
            if self._is_retired and not self._forks:
                self.close()

    def _end_forks(self) -> None:
        """The fork server ended; the kernel killed its children."""
        self.close()
        if not self.loaded.done():
            self.loaded.set_exception(NotReady("the fork server ended while it loaded the libraries"))
            self.loaded.exception()  # mark it as retrieved: perhaps no task waits for it
        for fork in self._forks.values():
            _end(fork, -signal.SIGKILL)
        self._forks.clear()


def _end(fork: ForkedProcess, code: int) -> None:
    if not fork.ended.done():
        fork.ended.set_result(code)
    if not fork.ready.done():
        fork.ready.set_result(False)


class ForkClient:
    """Starts fork servers and talks to them.

    Attributes:
        on_output: gets each line that a fork server prints.
        on_lost: gets the exit code when the fork server ends by itself; all its forks end with it.
        common: options that every process gets, beside its own.
        started_s: of the first fork server, since the epoch: later saves are not in the code that it loaded.
    """

    def __init__(
        self,
        project: Path,
        environment: Mapping[str, str],
        on_output: Callable[[str], None] = print,
        on_lost: Callable[[int], None] = lambda _: None,
        *,
        started: Started | None = None,
    ) -> None:
        """
        Args:
            started: a fork server to begin with, in place of one of our own.
        """
        self._project = project
        self._environment = environment
        self.started_s = 0.0
        self.common: Mapping[str, Any] = {}
        self.on_output = on_output
        self.on_lost = on_lost
        self._numbers = itertools.count(1)
        self._current: _Server | None = None  # that forks
        self._following: dict[_Server, asyncio.Task[None]] = {}  # of all whose process lives
        if started is not None:
            self._current, self.started_s = self._add(started), started.at_s

    @property
    def pid(self) -> int | None:
        return self._current.started.process.pid if self._current else None

    def start(self) -> None:
        """Start the fork server, unless it was started; it forks as soon as :meth:`wait_loaded` returns."""
        if self._current is None:
            self._current = self._add(start_fork_server(self._environment, self._project))
            self.started_s = self._current.started.at_s

    async def wait_loaded(self) -> int:
        """The milliseconds that loading the libraries and the code that functions import took.

        Raises:
            NotReady: the fork server ended instead; the log has its output.
        """
        if self._current is None:
            raise NotReady("the fork server was not started")
        return await asyncio.shield(self._current.loaded)

    async def renew(self) -> None:
        """Load the code that functions import, as it is on disk now, for later forks. Earlier forks keep theirs.

        Raises:
            NotReady: it does not load, and later forks have the code of before; the log has the output.
        """
        server = self._add(start_fork_server(self._environment, self._project))
        try:
            await asyncio.wait_for(asyncio.shield(server.loaded), LOAD_LIMIT_S)
        except (NotReady, TimeoutError):
            await server.end(0)
            raise NotReady(
                "the saved code can't be loaded: the functions keep running the earlier code; see the lines of "
                "fork-server in the log"
            ) from None
        old, self._current = self._current, server
        if old is not None:
            old.retire()

    def _add(self, started: Started) -> _Server:
        server = _Server(started, lambda text, _: self.on_output(text))
        self._following[server] = asyncio.get_running_loop().create_task(self._follow(server))
        return server

    def fork(
        self,
        name: str,
        entry: str,
        options: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        on_line: OnLine,
        sockets: Sequence[socket.socket] = (),
    ) -> ForkedProcess:
        """Request a process that runs ``entry(options, ready_fd, socket_fds)``."""
        if self._current is None:
            raise NotReady("the fork server is not running")
        fork = ForkedProcess(f"{name}-{next(self._numbers)}", name, on_line, self._current)
        self._current.add(fork)
        pipes = [os.pipe() for _ in range(3)]
        message = {"fork": fork.id, "name": name, "entry": entry, "env": environment}
        message |= {"options": {**self.common, **options}}
        try:
            fork.server.send(message, [*(write for _, write in pipes), *(sock.fileno() for sock in sockets)])
        finally:
            for _, write in pipes:
                os.close(write)
        for (read, _), is_error in zip(pipes[:2], (False, True), strict=True):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            fork.drained.append(done)
            _Lines(os.fdopen(read, "rb", buffering=0), done, on_line, is_error)
        _watch_ready(pipes[2][0], fork)
        return fork

    def signal(self, fork: ForkedProcess, number: int, *, group: bool = False) -> None:
        """Send a signal to the process, or to its whole *group*; an ended process is no error."""
        if not fork.ended.done():
            with contextlib.suppress(OSError, NotReady):
                fork.server.send({"kill": fork.id, "signal": number, "group": group}, [])

    async def stop_fork(self, fork: ForkedProcess, timeout_s: float) -> bool:
        """Send SIGTERM, wait, then SIGKILL its group. True when it ended before the SIGKILL."""
        self.signal(fork, signal.SIGTERM)
        if await fork.wait_ended(timeout_s) is not None:
            return True
        self.signal(fork, signal.SIGKILL, group=True)
        await fork.wait_ended(2)
        return False

    async def stop(self) -> None:
        """End every fork server and every process that it still has."""
        self.on_lost = lambda _: None
        for server, following in list(self._following.items()):
            # It ends when its socket closes, after it has reaped its children. A signal would leave zombies.
            await server.end(2 if server.loaded.done() else 0)
            await following
        self._current = None

    async def _follow(self, server: _Server) -> None:
        await server.drained
        code = await server.ended
        del self._following[server]
        if server is self._current:
            self.on_lost(code)


class _Lines(asyncio.Protocol):
    """Splits the output that comes through a pipe into lines."""

    LONGEST = 1 << 20  # bytes; a longer line is handed over in pieces

    def __init__(self, pipe: IO[bytes], done: asyncio.Future[None], on_line: OnLine, is_error: bool) -> None:
        self._rest = b""
        self._done = done
        self._on_line = on_line
        self._is_error = is_error
        loop = asyncio.get_running_loop()
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
    """The pipe becomes readable when the child reports that it is ready, or when it ends."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        data = os.read(fd, 64)
        loop.remove_reader(fd)
        os.close(fd)
        if data and not fork.ready.done():
            fork.ready.set_result(True)

    loop.add_reader(fd, look)
