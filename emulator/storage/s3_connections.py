"""werkzeug's threaded server, with limits: the number of connections, and how long a client may be silent.

Each connection is a thread and has one request. ``http.server`` limits a head: 64 KB a line, and 100 headers.
"""

import contextlib
import json
import socket
import threading
import time
from typing import Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from infra.open_files import connection_limit

SILENT_S = 60.0  # for one read of a head or a body
REPORT_EVERY_S = 10.0


class LimitedRequestHandler(WSGIRequestHandler):
    """Tells the server when a request has arrived; a client that sends nothing for a minute is disconnected."""

    timeout = SILENT_S
    server: "LimitedServer"

    def run_wsgi(self) -> None:
        self.server.request_has_come(self.connection)
        super().run_wsgi()


class LimitedServer(ThreadedWSGIServer):
    """Where connections become too many, the one that waits for its client for the longest is closed.

    Args:
        limit: how many connections there may be; None: half of the file descriptors.
    """

    def __init__(self, *arguments: Any, limit: int | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limit = limit or connection_limit()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._silent: dict[socket.socket, None] = {}  # the longest silent first
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
            self._silent.pop(request, None)
        super().shutdown_request(request)

    def request_has_come(self, connection: socket.socket) -> None:
        """The head of the request is complete."""
        with self._lock:
            self._silent.pop(connection, None)

    def _has_room(self, new: socket.socket) -> bool:
        with self._lock:
            if len(self._open) >= self._limit:
                self._count()
                oldest = next(iter(self._silent), None)
                if oldest is None:
                    return False
                del self._silent[oldest]
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
