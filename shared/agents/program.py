"""A running program: its pipes as streams, its end as an awaitable. For providers that start one.

``asyncio.create_subprocess_exec`` under uvloop copies the page tables of this process for each program, and so does
``preexec_fn``: 4 ms of the event loop, and 4 ms of another core. Here the child borrows our memory until it becomes the
program (vfork), which takes a quarter of a millisecond. ``setpriv`` of util-linux then asks the kernel to kill the
program if we are killed.
"""

import asyncio
import contextlib
import ctypes
import errno
import functools
import os
import shutil
import signal
import subprocess
from asyncio.streams import FlowControlMixin
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


class Program:
    """One program in a session of its own, and so in a process group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._transports: list[asyncio.BaseTransport] = []
        self._over = asyncio.Event()

    @classmethod
    async def start(
        cls, command: Sequence[str], *, folder: Path, environment: Mapping[str, str], line_limit: int
    ) -> Self:
        """Start the program.

        Raises:
            OSError: the program can't be started; ``strerror`` says why.
        """
        _check(command[0], folder, environment)
        prefix = _death_signal_prefix()
        process = subprocess.Popen(  # noqa: ASYNC220 - quicker than in a thread, which would hold the GIL
            [*prefix, *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            preexec_fn=None if prefix else _die_with_parent,
        )
        self = cls(process)
        self._watch()
        connecting = asyncio.create_task(self._connect(line_limit))
        try:
            await asyncio.shield(connecting)
        except BaseException:
            self.kill()
            connecting.add_done_callback(
                lambda _: self.close()
            )  # not half-way: a pipe without an owner is never closed
            raise
        return self

    async def _connect(self, line_limit: int) -> None:
        self.stdin = await self._writer(self._process.stdin)
        self.stdout = await self._reader(self._process.stdout, line_limit)
        self.stderr = await self._reader(self._process.stderr, line_limit)

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    async def wait(self) -> int:
        """The exit code, or the negative number of the signal. Other processes may still hold the pipes."""
        await self._over.wait()
        return self._process.returncode

    def kill(self) -> None:
        """Kill the program and its process group. This happens by itself when the program ends."""
        if self._process.returncode is not None:
            return  # another process may have its number by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close our ends of the pipes; a grandchild in a session of its own may keep its ends open."""
        for transport in self._transports:
            transport.close()

    def _watch(self) -> None:
        """Kill the group when the program ends. No other process gets its number before we read its exit code."""
        loop = asyncio.get_running_loop()
        fd = os.pidfd_open(self._process.pid)

        def ended() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            self.kill()
            self._process.wait()
            self._over.set()

        loop.add_reader(fd, ended)

    async def _reader(self, pipe: IO[bytes] | None, limit: int) -> asyncio.StreamReader:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
        self._transports.append(transport)
        return reader

    async def _writer(self, pipe: IO[bytes] | None) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(FlowControlMixin, pipe)
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)


def _check(name: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Raise what the kernel would answer, because here it would answer ``setpriv``."""
    found = folder / name if "/" in name else shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None or not os.path.exists(found):  # noqa: PTH110 - a path of either type
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if not os.access(found, os.X_OK) or os.path.isdir(found):  # noqa: PTH112
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


@functools.cache
def _death_signal_prefix() -> tuple[str, ...]:
    """The words before a command that make it die with us; none where there is no ``setpriv``."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    tried = subprocess.run([*prefix, setpriv, "--version"], check=False, capture_output=True)
    return prefix if tried.returncode == 0 else ()


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
