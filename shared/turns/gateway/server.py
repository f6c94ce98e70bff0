"""The HTTP server that agents' programs reach: uvicorn's protocol on a Unix socket, and on loopback where wanted.

It has no access log, and what it logs itself names no header and no address.
"""

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from shared.db.engine import owner_only

CLOSE = "postroom.close"  # of the scope: closes the connection, so that its client sees an answer that is cut
_KEEP_ALIVE_S = 75
_BACKLOG = 128
MOST_CONNECTIONS = 1024  # of all programs; each is a file that dispatch has open, and a program may open thousands
_quiet = logging.getLogger("postroom.gateway.http")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False  # uvicorn writes tracebacks and addresses; the applications log what matters


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, that lets the application close the connection in the middle of an answer."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.logger = self.access_logger = _quiet
        self.access_log = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= MOST_CONNECTIONS:
            transport.abort()
        else:
            super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.connections:
            super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CLOSE] = self.transport.close  # type: ignore[literal-required]


class ProgramServer:
    """Serves applications by the first part of the path, such as ``/openai``; started with the first :meth:`start`.

    Args:
        path: of the Unix socket; its folder is made, readable by us only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._apps: dict[str, ASGIApp] = {}
        self._state = ServerState()
        self._starting = asyncio.Lock()
        self._unix: asyncio.Server | None = None
        self._loopback: asyncio.Server | None = None

    def mount(self, name: str, app: ASGIApp) -> None:
        """Let *app* answer the paths below ``/name``; it gets the whole path."""
        self._apps[name] = app

    async def start(self) -> None:
        """Listen on the Unix socket. A second call changes nothing; a socket that a killed process left is replaced.

        Raises:
            OSError: the folder can't be written, or the path is too long.
        """
        async with self._starting:  # two turns may come at once
            if self._unix is None:
                self._unix = await self._listen()

    async def _listen(self) -> asyncio.Server:
        owner_only.make_folder(self.path.parent)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        before = os.umask(0o177)
        try:
            listening.bind(str(self.path))
        except OSError:
            listening.close()
            raise
        finally:
            os.umask(before)
        loop = asyncio.get_running_loop()
        return await loop.create_unix_server(self._protocol, sock=listening, backlog=_BACKLOG)

    async def start_loopback(self) -> int:
        """Listen on a free port of 127.0.0.1 too, for programs without a sandbox; the port."""
        async with self._starting:
            if self._loopback is None:
                loop = asyncio.get_running_loop()
                self._loopback = await loop.create_server(self._protocol, "127.0.0.1", 0, backlog=_BACKLOG)
        port: int = self._loopback.sockets[0].getsockname()[1]
        return port

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Answer on a socket that listens inside a sandbox, until the caller closes the server."""
        return await asyncio.get_running_loop().create_server(self._protocol, sock=listening, backlog=_BACKLOG)

    async def close(self) -> None:
        """Close the sockets and every connection."""
        for server in (self._unix, self._loopback):
            if server is not None:
                server.close()
        for connection in list(self._state.connections):
            connection.transport.close()
        if tasks := list(self._state.tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._unix is not None:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
        self._unix = self._loopback = None

    def _protocol(self) -> asyncio.Protocol:
        config = Config(
            self._serve,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        return _Protocol(config, self._state, {})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].split("/", 2)[1] if "/" in scope["path"] else ""
        app = self._apps.get(name)
        if app is not None:
            await app(scope, receive, send)
            return
        body = b'{"error":{"message":"nothing is served here"}}'
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": body})
