"""Starts everything that template.yaml names, keeps it up, and leaves nothing behind.

One asyncio process that owns the lock, every listening socket, the gateway, the ticks and the fake platforms; its
children are the fork server (and through it the functions), S3 and Litestream. What depends on nothing starts at once;
the database is complete before anything opens it, and a function runs only on a migrated one.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.base import environment, log_capture, ports
from emulator.base.console import Console
from emulator.base.errors import AlreadyInUse, EmulatorError, NotReady
from emulator.base.hints import command_line, relative
from emulator.base.options import RunOptions
from emulator.base.state import FolderLock
from emulator.processes.fork_client import ForkClient
from emulator.storage import database as datafile
from emulator.storage.s3_process import BUCKET, S3Process
from emulator.system.functions import Function
from infra.litestream.supervisor import Fenced

if TYPE_CHECKING:
    from emulator.system.ticks import Ticks

S3_PORT = 9100
_SYNC_LIMIT_S = 3.0
# Who uses something stops before it.
_STOP_ORDER = ("ticks", "gateway", "functions", "platforms", "replica", "s3", "fork server")


class Supervisor:
    """One running emulator. ``start``, ``wait`` until something ends it, ``stop``."""

    def __init__(self, options: RunOptions, console: Console, environ: Mapping[str, str] | None = None) -> None:
        self._options = options
        self._state = options.state
        self._console = console
        self._environ = dict(os.environ if environ is None else environ)
        self._lock = FolderLock(self._state)
        self._started = time.monotonic()
        self.has_state = False  # ours, once we have the lock
        self._is_ready = False
        self._is_stopping = False
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop_watching = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        self._closers: dict[str, Callable[[], Awaitable[Any]]] = {}

    @property
    def is_ready(self) -> bool:
        """Every part is up at this moment."""
        return self._is_ready and not self._is_stopping and self._components.are_up

    async def start(self) -> None:
        """Bring everything up.

        Raises:
            EmulatorError: says what did not come up and why. Call :meth:`stop` all the same.
        """
        self._state.prepare()
        self._lock.take()
        self.has_state = True
        log_capture.send_to(self._console)
        kept = self._state.kept()
        base = environment.base(self._environ)
        # The two slow ones first: they load libraries while the rest is read.
        s3 = ports.listen(kept["ports"].get("s3") or S3_PORT)
        self._objects = S3Process(
            folder=self._state.s3,
            sock=s3.sock,
            project=self._options.project,
            environment=base | {"MALLOC_ARENA_MAX": "1"},  # a thread for each connection, 8 MB less without
            on_line=lambda text: self._console.line("s3", text),
            on_trouble=lambda text: self._console.happened("s3", text, level="warning"),
        )
        self._fork_client = ForkClient(
            self._options.project,
            base,
            lambda text: self._console.line("fork-server", text, True),
            self._fork_server_ended,
        )
        await self._fork_client.start()
        self._closers["fork server"] = self._fork_client.stop
        await self._objects.start()
        self._closers["s3"] = self._objects.stop
        try:
            await self._start_rest(s3, kept)
        except BaseExceptionGroup as group:
            raise _first(group) from group

    async def wait(self) -> None:
        """Return never, unless a part ends that can't be started again.

        Raises:
            EmulatorError: which, and why.
        """
        await self._broken

    async def stop(self) -> None:
        """Stop in the order of dependence; the replica gets the last rows. Safe after a start that failed half-way."""
        self._is_stopping = True
        self._is_ready = False
        self._stop_watching.set()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for name in _STOP_ORDER:
            try:
                if name in self._closers:
                    await self._closers[name]()
            except Exception as error:  # noqa: BLE001 - one part's trouble must not keep the others running
                self._console.happened(name, f"did not stop cleanly: {error}", level="warning")
        if hasattr(self, "_components"):
            self._components.sockets.close()
        if self.has_state:
            self._state.tidy()
        self._lock.release()
        if not self._options.is_kept:
            self._state.remove()

    async def status(self) -> dict[str, Any]:
        """What ``/_emulator/status`` answers."""
        return self.instance.status(is_ready=self.is_ready)

    async def _start_rest(self, s3: ports.ListeningSocket, kept: dict[str, Any]) -> None:
        from emulator.system.components import Components
        from emulator.system.status import EmulatorStatus

        self._components = parts = Components(
            self._options,
            kept,
            self._environ,
            self._console,
            s3=s3,
            objects=self._objects,
            fork_client=self._fork_client,
            ready=lambda: self.is_ready,
            status=self.status,
        )
        self.instance = EmulatorStatus(parts, self._console, self._started)
        await parts.platforms.start(parts.sockets.platforms.sock)
        self._closers["platforms"] = parts.platforms.stop
        self.instance.greet()
        self._closers["functions"] = self._stop_functions
        async with asyncio.TaskGroup() as group:
            s3_up = group.create_task(self._start_s3())
            database = group.create_task(self._start_database(s3_up))
            group.create_task(self._start_replica(s3_up, database))
            for function in parts.functions.all:
                group.create_task(self._start_function(function, database))
        await self._start_gateway()
        async with self._step("platforms") as step:
            self._console.is_calm = True
            await parts.platforms.register()
            step.detail = "telegram, discord   webhooks signed; forged ones are refused (tried)"
        self._start_ticks()
        self._is_ready = True
        self.instance.announce()

    async def _start_s3(self) -> None:
        async with self._step("s3") as step:
            objects = await self._objects.wait_ready()
            step.detail = f"{self._objects.url}   bucket {BUCKET}, {objects} objects"

    async def _start_database(self, s3_up: "asyncio.Task[None]") -> None:
        """The file, when it is known that it is the newest, or restored: nothing of ours opens it before that."""
        parts = self._components
        await asyncio.gather(asyncio.shield(s3_up), self._fork_client.renew())
        ready = await datafile.claim(self._state, parts.replica_url, parts.litestream.lease, parts.aws)
        async with self._step("db") as step:
            parts.set_environments()
            facts = await datafile.prepare(self._fork_client, self._state.database, parts.functions["api"].environment)
            count = f"{facts['messages']:,}".replace(",", " ")
            step.detail = f"{relative(self._state.database)}     WAL, schema {facts['schema']}, {count} messages"
        if facts["file"]:
            way = f": `{command_line('diff', self._state.path)}` shows how" if facts["differs"] else ""
            self._console.note(facts["file"] + way)
        if sentence := datafile.how_it_goes_on(ready, count):
            self._console.note(sentence)

    async def _start_replica(self, s3_up: "asyncio.Task[None]", database: "asyncio.Task[None]") -> None:
        await asyncio.shield(s3_up)
        await asyncio.shield(database)
        async with self._step("replica") as step:
            self._closers["replica"] = self._stop_replica
            await self._components.litestream.start_ready()
            step.detail = self._components.replica_url
        self._in_background(self._until_fenced())

    async def _until_fenced(self) -> None:
        try:
            await self._components.litestream.wait()
        except Fenced as error:
            raise AlreadyInUse(str(error)) from None

    async def _stop_replica(self) -> None:
        litestream, problem = self._components.litestream, None
        if litestream.pid is not None:
            problem = await litestream.sync(_SYNC_LIMIT_S)
            if problem is not None:
                self._console.happened(
                    "replica",
                    f"the last rows are not in the bucket yet ({problem}); they are in the database, and the "
                    f"next start sends them",
                    level="warning",
                )
        if await litestream.stop() == 0 and problem is None:
            self._console.happened("replica", "synced")

    async def _start_function(self, function: Function, database: "asyncio.Task[None]") -> None:
        await asyncio.shield(database)
        async with self._step(function.name) as step:
            await self._components.functions.start(function)
            step.detail = self.instance.describe(function)

    async def _stop_functions(self) -> None:
        for name in await self._components.functions.stop():
            self._console.happened(name, "did not stop in time and was killed", level="warning")

    async def _start_gateway(self) -> None:
        from aiohttp import web

        async with self._step("gateway") as step:
            runner = web.AppRunner(
                self._components.gateway.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.5
            )
            await runner.setup()
            self._closers["gateway"] = runner.cleanup
            await web.SockSite(runner, self._components.sockets.gateway.sock).start()
            step.detail = self._components.url

    def _start_ticks(self) -> None:
        """They, and the watch over what is saved, which may change them."""
        from emulator.system.ticks import Ticks

        ticks = Ticks(self._components.functions, self._components.gateway, self._components.tick_secret)
        ticks.start(self._components.deployment.ticks)
        self._closers["ticks"] = ticks.stop
        if self._options.watch:
            self._in_background(self._watch(ticks))

    async def _watch(self, ticks: "Ticks") -> None:
        from emulator.system.reload import Reload  # when all else is ready: it takes its time

        await Reload(self._components, ticks, self._console).run(self._stop_watching)

    def _in_background(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)

    def _fork_server_ended(self, code: int) -> None:
        if not self._broken.done():
            self._broken.set_exception(
                NotReady(f"the fork server ended with code {code}, and all functions with it; start again")
            )
            self._broken.exception()  # a start that failed tells its own reason

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() and not self._broken.done():
            self._broken.set_exception(task.exception() or RuntimeError("unreachable"))

    @asynccontextmanager
    async def _step(self, name: str) -> AsyncIterator["_Step"]:
        """Print the line when it is done; nothing when it failed, its error says all."""
        begun = time.monotonic()
        step = _Step()
        yield step
        self._console.step(name, step.detail, (time.monotonic() - begun) * 1000)


@dataclass(slots=True)
class _Step:
    detail: str = ""


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that says something: ours before others', the first before its consequences."""
    flat: list[BaseException] = []

    def unfold(error: BaseException) -> None:
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                unfold(inner)
        else:
            flat.append(error)

    unfold(group)
    return next((error for error in flat if isinstance(error, EmulatorError)), flat[0])
