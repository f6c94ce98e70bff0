"""Unix sockets inside one process, such as those of the gateway: real ones, which its clients open by themselves.

Both ends are in one process, so what one writes is there at once for the other. They die with that process.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any


class Doorkeeper:
    """Lets connections in at a real Unix socket. Both ends are in one process: what is sent is there at once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, make: Callable[[], asyncio.Protocol]
    ) -> None:
        sock.setblocking(False)
        sock.listen()
        self.sockets = [sock]
        self._loop = loop
        self._make = make
        loop.add_reader(sock, self._let_in)

    def _let_in(self) -> None:
        sock, _ = self.sockets[0].accept()
        sock.setblocking(False)
        Door(self._loop, sock, self._make())

    def close(self) -> None:
        self._loop.remove_reader(self.sockets[0])
        self.sockets[0].close()


class Door(asyncio.Transport):
    """The side of a connection that was let in. What it writes is short enough for the kernel to take it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, protocol: asyncio.Protocol) -> None:
        super().__init__({"socket": sock})
        self._loop, self._sock, self._protocol = loop, sock, protocol
        self._is_open = True
        protocol.connection_made(self)
        self.resume_reading()

    def _read(self) -> None:
        try:
            data = self._sock.recv(1 << 20)
        except ConnectionResetError:  # its client has left, and not read all
            data = b""
        if data:
            self._protocol.data_received(data)
        else:
            self.close()

    def write(self, data: Any) -> None:
        if self._is_open:
            try:
                self._sock.sendall(data)
            except BrokenPipeError:
                self.close()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.pause_reading()
            self._sock.close()
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return not self._is_open

    def pause_reading(self) -> None:
        self._loop.remove_reader(self._sock)

    def resume_reading(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._sock, self._read)
