"""The S3 process: started on the supervisor's socket, and restarted on the same socket when it ends."""

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from emulator.base.errors import NotReady
from infra.processes import follow, spawn, stop

BUCKET = "postroom-replica"
READY_LIMIT_S = 30.0
_BACKOFF_S = 0.5


class S3Process:
    """``python -m emulator.storage.s3_server`` over *folder*. The supervisor has the socket, so the address stays.

    Args:
        faults: the file with the faults on order.

    Attributes:
        on_fault_taken: called with the number of a fault, and how many times it has left.
    """

    def __init__(
        self,
        *,
        folder: Path,
        sock: socket.socket,
        project: Path,
        environment: Mapping[str, str],
        faults: Path,
        on_line: Callable[[str], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._argv = [
            *(sys.executable, "-m", "emulator.storage.s3_server", "--fd", str(sock.fileno())),
            *("--dir", str(folder), "--bucket", BUCKET, "--faults", str(faults)),
        ]
        self._sock = sock
        self._project = project
        self._environment = environment
        self._on_line = on_line
        self._on_trouble = on_trouble
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[int] | None = None
        self._stopping = False
        self._last_line = ""
        self.on_fault_taken: Callable[[int, int], None] = lambda id_, left: None
        self._why_down = "it is starting"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def problem(self) -> str | None:
        """Why it can't answer, as far as its process shows; None while the process runs."""
        return None if self.pid is not None else self._why_down

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._sock.getsockname()[1]}"

    async def start(self) -> None:
        """Start the process; it answers as soon as :meth:`wait_ready` returns."""
        self._ready = asyncio.get_running_loop().create_future()
        self._process = await self._spawn()
        self._watcher = asyncio.create_task(self._restart_when_it_ends(self._process))

    async def wait_ready(self) -> int:
        """The number of objects that it found on disk.

        Raises:
            NotReady: the process ended, or took too long.
        """
        if self._ready is None:
            raise NotReady("S3 was not started")
        try:
            return await asyncio.wait_for(asyncio.shield(self._ready), READY_LIMIT_S)
        except TimeoutError:
            raise NotReady(f"S3 did not become ready at {self.url} within {READY_LIMIT_S:.0f} s") from None

    async def stop(self) -> None:
        self._stopping = True
        if self._process is not None:
            await stop(self._process, timeout_s=2)
        if self._watcher is not None:
            await self._watcher
        self._sock.close()

    async def _spawn(self) -> asyncio.subprocess.Process:
        # Flask and moto load slowly. No code of ours changes in this process, so it is never reloaded.
        return await spawn(self._argv, environment=self._environment, pass_fds=[self._sock.fileno()], cwd=self._project)

    async def _restart_when_it_ends(self, process: asyncio.subprocess.Process) -> None:
        while True:
            if process.stdout is not None:
                await follow(process.stdout, self._handle_line)
            code = await process.wait()
            if self._ready is not None and not self._ready.done():
                self._ready.set_exception(NotReady(f"S3 ended with code {code} before it was ready: {self._last_line}"))
                self._ready.exception()  # mark it as retrieved: perhaps no task waits for it
                return
            if self._stopping:
                return
            self._why_down = f"it ended with code {code} and is restarted"
            self._on_trouble(f"S3 ended with code {code}; restarting it with the objects on disk")
            await asyncio.sleep(_BACKOFF_S)
            if self._stopping:
                return
            self._process = process = await self._spawn()
            if self._stopping:  # since the check above: stop() saw only the old process
                await stop(process, timeout_s=2)

    def _handle_line(self, line: str) -> None:
        self._last_line = line
        if line.startswith('{"event": "s3.ready"'):
            if self._ready is not None and not self._ready.done():
                self._ready.set_result(json.loads(line)["objects"])
        elif line.startswith('{"event": "s3.fault_taken"'):
            taken = json.loads(line)
            self.on_fault_taken(taken["id"], taken["times"])
        else:
            self._on_line(line)
