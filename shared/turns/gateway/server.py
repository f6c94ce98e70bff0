"""The HTTP server that agents' programs reach: one for all, by a door for each session and one on loopback.

A door is a Unix socket, and what listens inside the session's sandbox. Its connections are counted alone, so that a
program that opens thousands shuts out nobody else. There is no access log, and what the server logs itself names no
header and no address.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config

from shared.db.engine import owner_only
from shared.runtime.connections import KEEP_ALIVE_S, Connections, LimitedProtocol

CLOSE = "postroom.close"  # of the scope: closes the connection, so that its client sees an answer that is cut
_BACKLOG = 128
_TICK_S = 5.0
MOST_OF_A_DOOR = 128  # the requests of a turn, twice
MOST_CONNECTIONS = 1024  # of all programs; each is a file that dispatch has open
_quiet = logging.getLogger("postroom.gateway.http")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False  # uvicorn writes tracebacks and addresses; the applications log what matters

Admits = Callable[[str, Scope], bool]
"""Whether what a request has as its token may be used at this door."""


class _Protocol(LimitedProtocol):
    """One connection. The application may close it in the middle of an answer."""

    request_bytes = 96 * 1024 * 1024  # the application's limit of a body, and what chunks add to it

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.logger = self.access_logger = _quiet
        self.access_log = False

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CLOSE] = self.transport.close  # type: ignore[literal-required]


class ProgramServer:
    """Serves applications by the first part of the path, such as ``/openai``.

    Args:
        folder: of the Unix sockets; it is emptied before the first one, and readable by us only.
        admits: asked before each request.
    """

    def __init__(self, folder: Path, admits: Admits = lambda _, __: True) -> None:
        self._folder = folder
        self._admits = admits
        self._apps: dict[str, ASGIApp] = {}
        self._states: dict[str, Connections] = {}
        self._starting = asyncio.Lock()
        self._unix: dict[str, asyncio.Server] = {}
        self._loopback: asyncio.Server | None = None
        self._tick: asyncio.TimerHandle | None = None

    def mount(self, name: str, app: ASGIApp) -> None:
        """Let *app* answer the paths below ``/name``; it gets the whole path."""
        self._apps[name] = app

    def path(self, door: str) -> Path:
        """The Unix socket of the door."""
        return self._folder / door

    async def open(self, door: str) -> None:
        """Listen on the Unix socket of the door. A second call changes nothing.

        Raises:
            OSError: the folder can't be written, or the path is too long.
        """
        async with self._starting:  # two turns may come at once
            if door not in self._unix:
                self._make_ready()
                self._unix[door] = await self._listen(door)

    def shut(self, door: str) -> None:
        """Stop listening at a door that has no program any more. Its open connections end by themselves."""
        server = self._unix.pop(door, None)
        if server is not None:
            server.close()
            with contextlib.suppress(FileNotFoundError):
                self.path(door).unlink()

    async def _listen(self, door: str) -> asyncio.Server:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            self.path(door).unlink()  # of the door's last program, whose server ends only now
        before = os.umask(0o177)
        try:
            listening.bind(str(self.path(door)))
        except OSError:
            listening.close()
            raise
        finally:
            os.umask(before)
        loop = asyncio.get_running_loop()
        return await loop.create_unix_server(self._protocol(door), sock=listening, backlog=_BACKLOG)

    async def start_loopback(self, door: str) -> int:
        """Listen on a free port of 127.0.0.1 too, for programs without a sandbox, which have one door; the port."""
        async with self._starting:
            if self._loopback is None:
                self._make_ready()
                loop, made = asyncio.get_running_loop(), self._protocol(door)
                self._loopback = await loop.create_server(made, "127.0.0.1", 0, backlog=_BACKLOG)
        port: int = self._loopback.sockets[0].getsockname()[1]
        return port

    async def serve(self, listening: socket.socket, door: str) -> asyncio.Server:
        """Answer on a socket that listens inside a sandbox, until the caller closes the server."""
        self._make_ready()
        made = self._protocol(door)
        return await asyncio.get_running_loop().create_server(made, sock=listening, backlog=_BACKLOG)

    async def close(self) -> None:
        """Close the sockets and every connection."""
        if self._tick is not None:
            self._tick.cancel()
        for server in (*self._unix.values(), self._loopback):
            if server is not None:
                server.close()
        for state in self._states.values():
            for connection in list(state.connections):
                connection.transport.close()
            if tasks := list(state.tasks):
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._unix, self._loopback, self._tick = {}, None, None

    def _make_ready(self) -> None:
        """Empty the folder: not earlier, because a second dispatch learns only then that it may not run."""
        if self._tick is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            owner_only.make_folder(self._folder)
            self._close_late()

    def _close_late(self) -> None:
        loop = asyncio.get_running_loop()
        for door, state in list(self._states.items()):
            state.close_late(loop.time())
            if not state.connections:
                del self._states[door]
        self._tick = loop.call_later(_TICK_S, self._close_late)

    def _protocol(self, door: str) -> Callable[[], asyncio.Protocol]:
        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            await self._serve(door, scope, receive, send)

        config = Config(
            serve,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        return lambda: _Protocol(config, self._state(door), {})

    def _state(self, door: str) -> Connections:
        """The connections of a door, with room for one more: the door with the most gives up a silent one."""
        states = self._states
        if sum(len(each.connections) for each in states.values()) >= MOST_CONNECTIONS:
            max(states.values(), key=lambda each: len(each.connections)).close_oldest_silent()
        return states.setdefault(door, Connections(MOST_OF_A_DOOR))

    async def _serve(self, door: str, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].split("/", 2)[1] if "/" in scope["path"] else ""
        app = self._apps.get(name)
        if app is None:
            await _refuse(send, 404, b"nothing is served here")
        elif not self._admits(door, scope):
            await _refuse(send, 401, b"this token is of a program of another session")
        else:
            await app(scope, receive, send)


async def _refuse(send: Send, status: int, sentence: bytes) -> None:
    body = b'{"error":{"message":"%s"}}' % sentence
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
