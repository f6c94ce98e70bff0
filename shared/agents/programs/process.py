"""A running program, held in: its pipes as streams, its end as an awaitable.

``asyncio.create_subprocess_exec`` under uvloop copies the page tables of this process for each program: 4 ms of the
event loop, and 4 ms of another core. Here the child borrows our memory until it becomes the program (posix_spawn),
which takes a quarter of a millisecond.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import socket
from asyncio.streams import FlowControlMixin
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from shared.agents.programs.containment import Containment, ProgramCommand

_KILL_AFTER_S = 1.0  # the first process ends within milliseconds; one that was stopped does not
_LAST_WORDS_S = 1.0  # after the end, to read the rest of the output from the pipes


class Program:
    """One program, in a session of its own. ``end`` leaves no process of it."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self._line = line  # as long as it is open, the program may live
        self._said = b""
        self._transports: list[asyncio.BaseTransport] = []
        self._code: int | None = None
        self._outermost: int | None = None
        self._over = asyncio.Event()
        self._closing: asyncio.TimerHandle | None = None
        self._is_reaped = False
        self._reaped = asyncio.Event()

    @classmethod
    async def start(cls, command: ProgramCommand, containment: Containment, *, line_limit: int) -> Self:
        """Start the program.

        Raises:
            OSError: the program can't be started; ``strerror`` says why.
        """
        _check(command.words[0], command.folder, command.environment)
        ours, theirs = _pipes()
        try:
            line, far = socket.socketpair()
            with far:
                pid = _spawn(containment.wrapped(command), command.environment, [*theirs, far.fileno()])
        except BaseException:
            _close(*ours, *theirs)
            raise
        _close(*theirs)
        self = cls(pid, line)
        self._watch()
        connecting = asyncio.create_task(self._connect(ours, line_limit))
        try:
            await asyncio.shield(connecting)
        except BaseException:
            self.kill()
            connecting.add_done_callback(lambda _: self.close())  # not half-way: a pipe without an owner stays open
            raise
        return self

    async def wait(self) -> int | None:
        """The exit code, or the negative number of the signal; None if it was killed, or never started."""
        await self._over.wait()
        return self._code

    def kill(self) -> None:
        """Begin to end everything that the program started."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    async def end(self) -> None:
        """End everything that the program started; return when it is gone."""
        self.kill()
        self.close()
        loop = asyncio.get_running_loop()
        last = loop.call_later(_KILL_AFTER_S, self._kill_outermost)
        try:
            await self._reaped.wait()
        finally:
            if self._is_reaped:
                last.cancel()

    def close(self) -> None:
        """Close our ends of the pipes."""
        if self._closing is not None:
            self._closing.cancel()
        for transport in self._transports:
            transport.close()

    def _kill_outermost(self) -> None:
        if not self._is_reaped:  # another process may have its number by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _watch(self) -> None:
        """Hear the exit code, and the end of the outermost process."""
        loop = asyncio.get_running_loop()
        self._line.setblocking(False)
        loop.add_reader(self._line, self._hear)
        fd = os.pidfd_open(self.pid)

        def ended() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            self._outermost = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self._is_reaped = True
            self._hang_up()
            self._reaped.set()

        loop.add_reader(fd, ended)

    def _hear(self) -> None:
        try:
            said = self._line.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        self._said += said
        if not said or b"\n" in self._said:
            self._hang_up()

    def _hang_up(self) -> None:
        """The program is over, and everything else of it ends."""
        if self._line.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            while said := self._line.recv(64):  # the end may be known before the code is read
                self._said += said
        asyncio.get_running_loop().remove_reader(self._line)
        self._line.close()
        self._code = self._exit_code(self._said.partition(b"\n")[0])
        self._over.set()
        # A supervisor that the program killed leaves processes that hold the pipes open.
        self._closing = asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.close)

    def _exit_code(self, said: bytes) -> int | None:
        """As it was reported; else the signal that killed the outermost process, and so the program."""
        if said.isdigit():
            code = int(said)
            return code if code <= 128 else 128 - code
        outermost = self._outermost or 0
        if outermost < 0:
            return outermost
        return 128 - outermost if outermost > 128 else None

    async def _connect(self, ours: "tuple[int, int, int]", line_limit: int) -> None:
        self.stdin = await self._writer(ours[0])
        self.stdout = await self._reader(ours[1], line_limit)
        self.stderr = await self._reader(ours[2], line_limit)

    async def _reader(self, fd: int, limit: int) -> asyncio.StreamReader:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        pipe = os.fdopen(fd, "rb", 0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
        self._transports.append(transport)
        return reader

    async def _writer(self, fd: int) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(fd, "wb", 0)
        transport, protocol = await loop.connect_write_pipe(FlowControlMixin, pipe)
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)


def _pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Our ends and the program's, in the order of its descriptors."""
    (read_in, write_in), (read_out, write_out), (read_error, write_error) = os.pipe(), os.pipe(), os.pipe()
    return (write_in, read_out, read_error), (read_in, write_out, write_error)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _spawn(words: list[str], environment: Mapping[str, str], fds: list[int]) -> int:
    """Start *words* with *fds* as the descriptors 0, 1, 2 and 3, and no others."""
    return os.posix_spawn(
        words[0],
        words,
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
        setsid=True,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
    )


def _check(name: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Raise what the kernel would answer, because here it would answer the first process."""
    found = folder / name if "/" in name else shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None or not os.path.exists(found):  # noqa: PTH110 - a path of either type
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if not os.access(found, os.X_OK) or os.path.isdir(found):  # noqa: PTH112
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
