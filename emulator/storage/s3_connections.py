"""The server of S3: a thread for each connection, with limits: their number, and how long a client may be silent.

A connection has any number of requests that are ours (``s3_requests``), one after the other: Litestream sends many, and
a connection and a thread for each cost more CPU than the request. The first that is moto's is the last.
"""

import contextlib
import json
import socket
import socketserver
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from emulator.base.connection_room import ConnectionRoom
from emulator.storage.s3_requests import CONTINUE, MOST_HEAD_BYTES, Answer, read_head
from shared.runtime import connected_user
from shared.runtime.open_files import connection_limit

SILENT_S = 60.0  # for one read of a head or a body
_PIECE_BYTES = 64 * 1024
_TOLD = (
    b"this S3 serves the user of its emulator only, and the kernel does not say that this connection is of that user: "
    b"call it as that user\n"
)
_HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(_TOLD)))]
_OTHER_USER: Answer = ("403 Forbidden", _HEADERS, [_TOLD])
CLOSE = ("Connection", "close")  # among the headers of an answer: it is the last of its connection
_KEPT_AFTER = ("2", "404", "412")  # nothing of the request is left to be read


class S3Application(Protocol):
    """What the server serves."""

    def answer(self, environ: dict[str, Any], read: Callable[[int], bytes]) -> Answer | None:
        """The answer to a request that is ours; None where moto has to read it.

        Args:
            read: the first bytes of the body, as many; fewer if the client sends no more.
        """

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The answer to any other request, by WSGI."""


class S3Connection(socketserver.BaseRequestHandler):
    """One client. If it sends nothing for a minute, it is disconnected."""

    silent_s = SILENT_S
    server: "LimitedServer"

    def setup(self) -> None:
        self.request.settimeout(self.silent_s)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._received = bytearray()
        self._is_own_user = connected_user.own_user_question(self.request)

    def handle(self) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError):
            while self._answer_one():
                pass

    def _answer_one(self) -> bool:
        """Answer one request; True if another may follow."""
        while b"\r\n\r\n" not in self._received and len(self._received) < MOST_HEAD_BYTES:
            if not self._receive():
                break
        if not self._received:
            return False
        if not self._is_own_user():
            self._send(_OTHER_USER, len(self._received))
            return False
        found = read_head(bytes(self._received[:MOST_HEAD_BYTES]))
        if found is not None:
            environ, begin = found
            self.server.request_has_come(self.request)
            is_awaited = environ.get("HTTP_EXPECT") == CONTINUE
            answer = self.server.app.answer(environ, lambda length: self._body(begin, length, is_awaited))
            if answer is not None:
                length = environ.get("CONTENT_LENGTH", "0")
                return self._send(answer, begin + (int(length) if length.isdecimal() else 0))
        self._leave_to_moto()
        return False

    def _receive(self) -> bool:
        piece = self.request.recv(_PIECE_BYTES)
        self._received += piece
        return bool(piece)

    def _body(self, begin: int, length: int, is_awaited: bool) -> bytes:
        if is_awaited and len(self._received) < begin + length:
            self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self._received) < begin + length and self._receive():
            pass
        return bytes(self._received[begin : begin + length])

    def _send(self, answer: Answer, length: int) -> bool:
        """Send the answer to a request of that many bytes; True if the connection is kept."""
        status, headers, body = answer
        is_kept = status.startswith(_KEPT_AFTER) and len(self._received) >= length and CLOSE not in headers
        del self._received[:length]
        lines = [("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())), *headers]
        if is_kept:
            self.server.request_is_answered(self.request)
        elif CLOSE not in headers:
            lines.append(CLOSE)
        head = "".join(f"{name}: {value}\r\n" for name, value in lines)
        self.request.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + b"".join(body))
        return is_kept

    def _leave_to_moto(self) -> None:
        from emulator.storage.moto_request import MotoRequest  # moto takes half a second and 40 MB

        MotoRequest(self.request, self.client_address, self.server, bytes(self._received)).handle_one_request()


class LimitedServer(socketserver.ThreadingTCPServer):
    """Where connections become too many, one that waits for its client is closed.

    The first to go had a request already: its client loses nothing, and connects again. Then goes the longest silent.

    Args:
        sock: bound and listening, in place of *port*.
        limit: how many connections there may be; None: half of the file descriptors.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
    # What werkzeug's handler asks of its server:
    ssl_context = None
    multithread, multiprocess, passthrough_errors = True, False, False

    def __init__(
        self,
        port: int,
        app: S3Application,
        *,
        sock: socket.socket | None = None,
        limit: int | None = None,
        handler: type[S3Connection] = S3Connection,
    ) -> None:
        super().__init__(("127.0.0.1", port), handler, bind_and_activate=sock is None)
        if sock is not None:
            self.socket.close()
            self.socket, self.server_address = sock, sock.getsockname()
        self.app = app
        self._room: ConnectionRoom[socket.socket] = ConnectionRoom(limit or connection_limit(), _end, self._tell)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.enter(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        self._room.leave(request)
        super().shutdown_request(request)

    def request_has_come(self, connection: socket.socket) -> None:
        """The head of the request is complete."""
        self._room.hear(connection)

    def request_is_answered(self, connection: socket.socket) -> None:
        """The connection is open for another request; call it before the answer goes out."""
        self._room.listen(connection, goes_first=True)

    def _tell(self, closed: Counter[str]) -> None:
        count, limit = closed.total(), self._room.limit
        facts = {"event": "s3.connections_closed", "level": "warning", "count": count, "limit": limit}
        print(json.dumps(facts), flush=True)  # noqa: T201


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # its client has disconnected
        connection.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
