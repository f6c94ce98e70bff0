"""The relay of Discord's Gateway beside the functions, where ``emulator run --relay`` wants it."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from emulator.base.console import Console
from emulator.base.errors import NotReady
from infra.processes import follow, spawn, stop

READY_LIMIT_S = 30.0
_BACKOFF_S = 0.5
_STOP_LIMIT_S = 2.0
_CONNECTED = ('"event":"relay.ready"', '"event":"relay.resumed"')


class RelayProcess:
    """``python -m infra.discord_relay``, started again when it ends, except where a restart does not help.

    *clock*: the file of the emulator's clock, with whose instants the relay signs.
    """

    def __init__(self, project: Path, console: Console, clock: Path) -> None:
        self._project = project
        self._clock = clock
        self._console = console
        self._environment: Mapping[str, str] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_connected = asyncio.Event()
        self._stopping = False
        self._why_down = "it is starting"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def problem(self) -> str | None:
        """Why nothing is relayed, as far as its process shows; None while the process runs."""
        return None if self.pid is not None else self._why_down

    async def start(self, environment: Mapping[str, str]) -> None:
        """Start the process; returns once it is connected with the Gateway.

        Raises:
            NotReady: it ended, or took too long; the message has its last lines.
        """
        self._environment = environment
        self._process = await self._spawn()
        self._watcher = asyncio.create_task(self._watch(self._process))
        connected = asyncio.create_task(self._is_connected.wait())
        try:
            await asyncio.wait([connected, self._watcher], timeout=READY_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connected.cancel()
        if not self._is_connected.is_set():
            raise NotReady(
                f"the Discord relay did not connect: {self.problem or 'it waits for the Gateway'}\n{self._tail}"
            )

    async def stop(self) -> None:
        self._stopping = True
        if self._process is not None:
            await stop(self._process, timeout_s=_STOP_LIMIT_S)
        if self._watcher is not None:
            await self._watcher

    @property
    def _tail(self) -> str:
        return self._console.tail("relay")

    async def _spawn(self) -> asyncio.subprocess.Process:
        argv = [sys.executable, "-m", "emulator.processes.on_clock", str(self._clock), "infra.discord_relay"]
        return await spawn(argv, environment=self._environment, cwd=self._project)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        while True:
            if process.stdout is not None:
                await follow(process.stdout, self._handle_line)
            code = await process.wait()
            if self._stopping:
                return
            self._why_down = f"it ended with code {code}"
            if code == os.EX_CONFIG:
                return  # as in production: a restart mends no setting
            self._console.event("relay", f"the relay ended with code {code}; restarting it", level="warning")
            await asyncio.sleep(_BACKOFF_S)
            if self._stopping:
                return
            self._process = process = await self._spawn()
            if self._stopping:  # since the check above: stop() saw only the old process
                await stop(process, timeout_s=_STOP_LIMIT_S)

    def _handle_line(self, line: str) -> None:
        self._console.line("relay", line)
        if any(mark in line.replace(": ", ":") for mark in _CONNECTED):
            self._is_connected.set()
