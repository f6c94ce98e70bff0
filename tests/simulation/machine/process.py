"""Processes of the product's functions: each incarnation imports its function's module anew, as a real process does.

A request runs in the lane of its process. What the kernel closes when a process dies is closed here: the connections to
the database, the sockets, and the locks that it held by an open descriptor.
"""

import asyncio
import importlib.util
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from starlette.requests import Request

from tests.simulation.machine.disk import Disk
from tests.simulation.machine.loop import LANE, Lane, SimulatedLoop, context_of
from tests.simulation.machine.wires import Wires

_HOST = {"host": "localhost"}
_OPEN = Path("/proc/self/fd")
STOP_S = 3.0  # as the runner's: then a process that does not end is killed


class Reset(Exception):
    """The process died before it had answered."""


class Answer:
    """What a process answered."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Machine(Protocol):
    """What processes run on."""

    loop: SimulatedLoop
    disk: Disk
    wires: Wires

    @property
    def descriptors(self) -> "Descriptors":
        """Who has opened what."""


class Process:
    """One incarnation of a function."""

    def __init__(self, machine: Machine, function: str, number: int) -> None:
        self.function = function
        self.name = f"{function}.{number}"
        self.is_up = False
        self.error: BaseException | None = None  # why it could not start
        self._machine = machine
        self._loop = machine.loop
        self.lane = self._loop.lane(self.name, self._die)
        self.ended: asyncio.Future[None] = self._loop.create_future()  # in the world's lane
        self._stopping: asyncio.Future[None] = self._loop.create_future()
        self._module: ModuleType | None = None
        self._asked: set[asyncio.Future[Answer]] = set()
        self._loop.begin(self.lane, self._live())

    @property
    def is_dead(self) -> bool:
        return self.lane.is_dead

    def kill(self) -> None:
        self._loop.kill(self.lane)

    def stop(self) -> None:
        """Let it end in good order; it is killed if that takes too long."""
        self._loop.begin(self.lane, self._resolve(self._stopping))
        self._loop.call_later(STOP_S, self.kill)

    async def ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes = b"",
        on_piece: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """Called by the world; its request arrives a moment later.

        Args:
            on_piece: gets each piece of the answer's body as it comes.

        Raises:
            Reset: the process is dead, or dies meanwhile.
        """
        loop = self._loop
        await asyncio.sleep(self._machine.wires.delay())
        if self.lane.is_dead or not self.is_up:
            raise Reset(self.name)
        future: asyncio.Future[Answer] = loop.create_future()
        self._asked.add(future)
        loop.begin(self.lane, self._serve(future, method, path, headers, body, on_piece))
        try:
            return await future
        finally:
            self._asked.discard(future)

    async def _live(self) -> None:
        try:
            module = self._import()
            async with module.lifespan(None):
                self._module, self.is_up = module, True
                await self._stopping
                self.is_up = False
        except Exception as error:  # noqa: BLE001 - the supervisor starts it again
            self.error = error
        self._loop.call_soon(self.kill)

    def _import(self) -> ModuleType:
        name = f"functions.{self.function}"
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    async def _serve(
        self,
        future: "asyncio.Future[Answer]",
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        on_piece: Callable[[bytes], None] | None,
    ) -> None:
        path, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in (_HOST | headers).items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "extensions": {},
        }  # fmt: skip
        pieces = [{"type": "http.request", "body": body, "more_body": False}]
        told: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if pieces:
                return pieces.pop()
            await self._loop.create_future()  # the client stays
            return {}

        outside, arrives_at = context_of(self._loop.outside), 0.0

        async def send(message: Any) -> None:
            nonlocal arrives_at
            if on_piece is None or "body" not in message:
                told.append(message)
                return
            arrives_at = max(arrives_at, self._loop.time() + self._machine.wires.delay())  # in order
            self._loop.call_at(arrives_at, on_piece, message["body"], context=outside)

        assert self._module is not None
        try:
            response = await getattr(self._module, self.function)(Request(scope, receive))
            await response(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - as the runner does: 500, unless something was said
            if not told:
                told.append({"type": "http.response.start", "status": 500, "headers": []})
            self.error = error
        head = {name.decode().lower(): value.decode() for name, value in told[0]["headers"]}
        whole = Answer(told[0]["status"], head, b"".join(each.get("body", b"") for each in told[1:]))
        self._loop.call_later(self._machine.wires.delay(), self._answer, future, whole, context=outside)

    def _answer(self, future: "asyncio.Future[Answer]", answer: Answer) -> None:
        """What was sent arrives, also if the sender is dead by now."""
        if not future.done():
            future.set_result(answer)

    async def _resolve(self, future: "asyncio.Future[None]") -> None:
        if not future.done():
            future.set_result(None)

    def _die(self) -> None:
        self.is_up = False
        self._machine.disk.bury(self.lane)
        self._machine.wires.end_of(self.lane)
        self._machine.descriptors.close(self.lane)
        for future in self._asked:
            if not future.done():
                self._loop.call_later(0.03, self._reset, future, context=context_of(self._loop.outside))
        if not self.ended.done():
            self._loop.call_soon(self.ended.set_result, None, context=context_of(self._loop.outside))

    def _reset(self, future: "asyncio.Future[Answer]") -> None:
        if not future.done():
            future.set_exception(Reset(self.name))


class Descriptors:
    """Whose the open files and sockets are: Python tells of each that is opened, and the lane says by whom."""

    def __init__(self, db: Path) -> None:
        self._db = str(db.absolute())
        self._sockets: dict[Lane, list[socket.socket]] = {}
        self._opened: dict[int, tuple[str, Lane]] = {}  # by descriptor
        self._new: list[tuple[str, Lane]] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.__new__":
            if (lane := LANE.get(None)) is not None:
                self._sockets.setdefault(lane, []).append(args[0])
        elif event == "open":
            path = str(Path(os.fsdecode(args[0])).absolute()) if isinstance(args[0], str | bytes) else ""
            if path.startswith(f"{self._db}-") and not path.endswith("-gate") and (lane := LANE.get(None)) is not None:
                self._new.append((path, lane))

    def look(self) -> None:
        """After a callback: what it opened and has not closed again is its process's."""
        if not self._new:
            return
        new, self._new = dict(self._new), []
        links = {int(entry.name): _link(int(entry.name)) for entry in _OPEN.iterdir()}
        self._opened = {fd: known for fd, known in self._opened.items() if links.get(fd) == known[0]}
        self._opened |= {fd: (link, new[link]) for fd, link in links.items() if link in new and fd not in self._opened}

    def close(self, lane: Lane) -> None:
        """As the kernel does for the dead."""
        self.look()
        for sock in self._sockets.pop(lane, []):
            sock.close()
        for fd, (path, of) in list(self._opened.items()):
            if of is lane:
                del self._opened[fd]
                if _link(fd) == path:
                    os.close(fd)


def _link(fd: int) -> str:
    """What it is open for; empty: nothing any more."""
    try:
        return str((_OPEN / str(fd)).readlink())
    except OSError:
        return ""
