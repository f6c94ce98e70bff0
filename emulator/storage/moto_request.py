"""One request that is moto's, read by werkzeug with ``http.server``, which limits a head: 64 KB a line, 100 headers."""

import io
import socket
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler


class MotoRequest(MotoRequestHandler):
    """The request at the beginning of what was *received* of a connection. It is the last of the connection.

    Args:
        server: a ``LimitedServer``, which has all that werkzeug asks of its own server.
    """

    protocol_version = "HTTP/1.1"
    server_version = "moto"

    def __init__(self, connection: socket.socket, client_address: Any, server: Any, received: bytes) -> None:
        # Not the inherited way, which reads from the connection alone.
        self.request = self.connection = connection
        self.client_address, self.server = client_address, server
        self.rfile = io.BufferedReader(_Received(received, connection))
        self.wfile = connection.makefile("wb")
        self.close_connection = True

    def run_wsgi(self) -> None:
        self.server.request_has_come(self.connection)  # type: ignore[attr-defined]
        super().run_wsgi()

    def log(self, *_: Any) -> None:
        """Log nothing."""

    def log_request(self, *_: Any) -> None:
        """Log nothing."""


class _Received(io.RawIOBase):
    """What was received, and then what the connection sends."""

    def __init__(self, received: bytes, connection: socket.socket) -> None:
        self._received = memoryview(received)
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._received:
            return self._connection.recv_into(buffer)
        length = min(len(buffer), len(self._received))
        buffer[:length] = self._received[:length]
        self._received = self._received[length:]
        return length
