"""werkzeug's threaded server, with limits: the number of connections, and how long a client may be silent.

Each connection is a thread. It has one request, or any number of plain ones (``plain_requests``) one after the other:
Litestream sends many, and a connection and a thread for each cost more CPU than the request. ``http.server`` limits a
head: 64 KB a line, and 100 headers. The head of a plain request has 8 KB at most, the buffer of its connection.
"""

import contextlib
import io
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from emulator.storage.plain_requests import Answer, read_head
from infra.open_files import connection_limit

SILENT_S = 60.0  # for one read of a head or a body
REPORT_EVERY_S = 10.0


class LimitedRequestHandler(WSGIRequestHandler):
    """Tells the server when a request has arrived; a client that sends nothing for a minute is disconnected."""

    timeout = SILENT_S
    server: "LimitedServer"
    rfile: io.BufferedReader

    def run_wsgi(self) -> None:
        self.server.request_has_come(self.connection)
        super().run_wsgi()

    def handle_one_request(self) -> None:
        """Answer a plain request and keep the connection; leave every other request to ``http.server`` and werkzeug."""
        answer = self._plain_answer()
        if answer is None:
            super().handle_one_request()
            return
        status, headers, body = answer
        self.close_connection = status != "200 OK"
        lines = [("Server", self.version_string()), ("Date", self.date_time_string()), *headers]
        if self.close_connection:
            lines.append(("Connection", "close"))
        else:
            self.server.request_is_answered(self.connection)
        head = "".join(f"{name}: {value}\r\n" for name, value in lines)
        self.connection.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + b"".join(body))

    def _plain_answer(self) -> Answer | None:
        """None where http.server has to read the request; then all of it is still to be read."""
        found = read_head(self.rfile.peek())
        if found is None:
            return None
        environ, length = found
        self.server.request_has_come(self.connection)
        body = _Body(self.rfile, length)
        answer = self.server.answer_plainly(environ | {"wsgi.input": body})
        if answer is not None:
            body.skip_head()
        return answer


class _Body:
    """What follows a head that is still to be read."""

    def __init__(self, stream: io.BufferedReader, head_length: int) -> None:
        self._stream = stream
        self._head_length = head_length

    def read(self, length: int) -> bytes:
        """Called once, for all of the body."""
        self.skip_head()
        return self._stream.read(length)

    def skip_head(self) -> None:
        """Read the head, unless it is read already."""
        self._stream.read(self._head_length)
        self._head_length = 0


class LimitedServer(ThreadedWSGIServer):
    """Where connections become too many, one that waits for its client is closed.

    The first to go had a request already: its client loses nothing, and connects again. Then goes the longest silent.

    Args:
        limit: how many connections there may be; None: half of the file descriptors.
        answer_plainly: answers a plain request by its environ, or returns None for the application to answer it.
    """

    def __init__(
        self,
        *arguments: Any,
        limit: int | None = None,
        answer_plainly: Callable[[dict[str, Any]], Answer | None] = lambda _: None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.answer_plainly = answer_plainly
        self._limit = limit or connection_limit()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._silent: dict[socket.socket, None] = {}  # without a request yet; the longest silent first
        self._kept: dict[socket.socket, None] = {}  # silent since a request was answered; the longest first
        self._closed = 0
        self._reported_s = float("-inf")

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._has_room(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
            self._forget(request)
        super().shutdown_request(request)

    def request_has_come(self, connection: socket.socket) -> None:
        """The head of the request is complete."""
        with self._lock:
            self._forget(connection)

    def request_is_answered(self, connection: socket.socket) -> None:
        """The connection is open for another request; call it before the answer goes out."""
        with self._lock:
            self._kept[connection] = None

    def _forget(self, silent: socket.socket) -> None:
        self._silent.pop(silent, None)
        self._kept.pop(silent, None)

    def _has_room(self, new: socket.socket) -> bool:
        with self._lock:
            if len(self._open) >= self._limit:
                self._count()
                oldest = next(itertools.chain(self._kept, self._silent), None)
                if oldest is None:
                    return False
                self._forget(oldest)
                self._open.discard(oldest)
                with contextlib.suppress(OSError):  # its client has disconnected
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
            self._open.add(new)
            self._silent[new] = None
            return True

    def _count(self) -> None:
        self._closed += 1
        now_s = time.monotonic()
        if now_s - self._reported_s >= REPORT_EVERY_S:
            facts = {"event": "s3.connections_closed", "level": "warning", "count": self._closed, "limit": self._limit}
            print(json.dumps(facts), flush=True)  # noqa: T201
            self._closed, self._reported_s = 0, now_s
