"""The three pipes between dispatch and a program, as streams."""

import asyncio
import fcntl
import os
from asyncio.streams import FlowControlMixin
from typing import NamedTuple


class OurEnds(NamedTuple):
    """File descriptors of dispatch: the first is written, the others are read."""

    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close all three."""
        close(*self)


class Streams:
    """The pipes of one program."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self) -> None:
        self._transports: list[asyncio.BaseTransport] = []

    async def connect(self, ours: OurEnds, line_limit: int) -> None:
        """Take these descriptors over."""
        self.stdin = await self._writer(ours.stdin)
        self.stdout = await self._reader(ours.stdout, line_limit)
        self.stderr = await self._reader(ours.stderr, line_limit)

    def close(self) -> None:
        """Close our ends."""
        for transport in self._transports:
            transport.close()

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


def pipes() -> tuple[OurEnds, tuple[int, int, int]]:
    """New ones: our ends, and the program's, in the order of its descriptors."""
    (read_in, write_in), (read_out, write_out), (read_error, write_error) = os.pipe(), os.pipe(), os.pipe()
    return OurEnds(write_in, read_out, read_error), (read_in, write_out, write_error)


def out_of_the_way(descriptor: int) -> int:
    """A copy of *descriptor* for a child, under a number that no other descriptor of the child takes."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)


def close(*fds: int) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)
