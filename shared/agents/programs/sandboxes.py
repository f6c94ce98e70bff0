"""The sandboxes of dispatch: one that has served a turn waits a while for the next turn of its session."""

import asyncio
import contextlib
import itertools
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from shared.agents.programs import listeners, sandbox
from shared.agents.programs.containment import Containment, GatewaySocket, ProgramCommand, SessionHome
from shared.agents.programs.listeners import Listeners
from shared.agents.programs.sandbox import Sandbox

Serve = Callable[[socket.socket, Path], Awaitable[asyncio.Server]]
"""Serves the gateway on a socket that listens, as on the Unix socket with this path."""

_IDLE_S = 30.0
_IDLE_AT_MOST = 32  # half a megabyte each


class _Place(NamedTuple):
    """What two turns have in common that may use one sandbox: the session, and all that it can see."""

    session: str
    folder: Path
    session_folder: Path | None
    readable: frozenset[Path]
    gateway: GatewaySocket | None
    home: SessionHome | None
    makes_sandboxes: bool


class _Idle(NamedTuple):
    sandbox: Sandbox
    end: asyncio.TimerHandle


class Sandboxes:
    """Owned by one dispatch.

    Args:
        folder: for the pipes of all sandboxes; emptied before the first one.
        serve: the gateway; None: no program here may want it.
        idle_s: how long a sandbox waits for a turn.
        at_most: as many wait; then the one that has waited longest ends.
    """

    def __init__(
        self, folder: Path, serve: Serve | None = None, *, idle_s: float = _IDLE_S, at_most: int = _IDLE_AT_MOST
    ) -> None:
        self._folder = folder
        self._serve = serve
        self._listeners = Listeners()
        self._idle_s = idle_s
        self._at_most = at_most
        self._idle: dict[_Place, _Idle] = {}
        self._numbers = itertools.count()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_ready = False

    def take(self, command: ProgramCommand, held: Containment) -> Sandbox | None:
        """A sandbox for this turn; None where the command must have another containment."""
        if command.session is None or not held.is_leash or not sandbox.is_supported():
            return None
        if command.gateway is not None and (self._serve is None or not listeners.is_supported()):
            return None
        idle = self._idle.pop(_place(command), None)
        if idle is not None:
            idle.end.cancel()
            idle.sandbox.on_end = _nothing
            return idle.sandbox
        self._make_ready()
        return Sandbox(self._folder / str(next(self._numbers)), command, self._way_out(command))

    def _way_out(self, command: ProgramCommand) -> sandbox.WayOut | None:
        serve, gateway = self._serve, command.gateway
        if serve is None or gateway is None:
            return None

        async def opened(pid: int, port: int) -> asyncio.Server:
            return await serve(await self._listeners.listen(pid, port), gateway.path)

        return opened

    def _make_ready(self) -> None:
        """Empty the folder: not earlier, because a second dispatch learns only then that it may not run."""
        if not self._is_ready:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700, parents=True)
            self._is_ready = True

    def keep(self, command: ProgramCommand, sandbox: Sandbox) -> None:
        """A clean sandbox waits for the next turn of its session."""
        place = _place(command)
        self._end(place)
        end = asyncio.get_running_loop().call_later(self._idle_s, self._end, place)
        self._idle[place] = _Idle(sandbox, end)
        sandbox.on_end = lambda: self._end(place)
        while len(self._idle) > self._at_most:
            self._end(next(iter(self._idle)))

    def discard(self, sandbox: Sandbox) -> asyncio.Task[None]:
        """End a sandbox; also when nobody awaits it."""
        ending = asyncio.get_running_loop().create_task(sandbox.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    async def close(self) -> None:
        """End all that wait."""
        for place in list(self._idle):
            self._end(place)
        await asyncio.gather(*self._ending)
        self._listeners.close()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _end(self, place: _Place) -> None:
        idle = self._idle.pop(place, None)
        if idle is None:
            return
        idle.end.cancel()
        self.discard(idle.sandbox)


def _place(command: ProgramCommand) -> _Place:
    readable = frozenset(command.readable)
    seen = command.folder, command.session_folder, readable, command.gateway
    return _Place(command.session or "", *seen, command.home, command.makes_sandboxes)


def _nothing() -> None:
    return
