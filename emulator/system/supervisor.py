"""Starts everything that template.yaml names, keeps it running, and leaves nothing behind.

One asyncio process owns the lock, every listening socket, the gateway, the ticks and the fake platforms. Its child
processes are the fork server (the parent of the functions), S3 and Litestream. :meth:`Supervisor.start` takes these
steps, and nothing waits for more than it needs:

1. Take the state folder.
2. Start S3, and the fork server where it does not run yet: both load libraries for a while.
3. Make the other components in memory and bind their sockets; start the fake platforms.
4. When S3 answers: check the database, or restore it. When the fork server has loaded our code: migrate it.
5. Start Litestream and the functions. Nothing of ours opens the database before this step.
6. Start the gateway, register the webhooks, start the relay where it is wanted, and start the ticks.

:meth:`Supervisor.wait` watches the code, and begins with what was saved during the start.
"""

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from aiohttp import web

from emulator.base import environment, faults, log_capture, ports
from emulator.base.clock_page import ClockPage
from emulator.base.console import Console
from emulator.base.errors import AlreadyInUse, NotReady, first_reason
from emulator.base.fakes import PLATFORMS
from emulator.base.hints import command_line, relative
from emulator.base.limited_site import LimitedSite
from emulator.base.log_file import LogFile
from emulator.base.options import RunOptions
from emulator.base.shell import of_shell
from emulator.base.state import FolderLock
from emulator.processes.fork_client import ForkClient
from emulator.processes.start import ONE_HEAP
from emulator.storage import database
from emulator.storage.s3_process import BUCKET, S3Process
from emulator.system import writer_death
from emulator.system.components import Components
from emulator.system.functions import Function
from emulator.system.relay import RelayProcess
from emulator.system.status import EmulatorStatus
from emulator.system.ticks import Ticks
from infra.litestream import Fenced, Ready
from infra.processes import process_started
from shared.conversation.alerts import faults_by_hand
from shared.core.time import clock

if TYPE_CHECKING:
    from emulator.system.clock_moves import ClockMoves

S3_PORT = 9100
_SYNC_LIMIT_S = 3.0
# A component stops before the components that it uses.
_STOP_ORDER = ("clock", "ticks", "relay", "gateway", "functions", "platforms", "replica", "s3", "fork server")


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Imports make many objects and no garbage; and no later collection visits what there is at the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Supervisor:
    """One running emulator. Call ``start``, then ``wait`` until a component fails for good, then ``stop``."""

    def __init__(
        self,
        options: RunOptions,
        console: Console,
        fork_client: ForkClient | None = None,
    ) -> None:
        """*fork_client*: started already; it is this supervisor's from here on. None: the start makes one."""
        self._options = options
        self._state = options.state
        self._console = console
        self._environ = dict(os.environ)
        self._lock = FolderLock(self._state)
        self._log_file = LogFile(self._state.log_file)
        self._started = process_started()
        self.has_state = False  # true as soon as this process holds the lock
        self._is_ready = False
        self._is_stopping = False
        self._moves: ClockMoves | None = None
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop_watching = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        self._fork_client = fork_client or ForkClient(options.project, of_shell(self._environ))
        self._fork_client.on_output = lambda text: console.line("fork-server", text, True)
        self._fork_client.on_lost = self._fork_server_ended
        self._stoppers: dict[str, Callable[[], Awaitable[Any]]] = {"fork server": self._fork_client.stop}

    async def start(self) -> None:
        """Bring everything up.

        Raises:
            EmulatorError: says what did not come up and why. Call :meth:`stop` all the same.
        """
        self._state.prepare()
        self._lock.take()
        self.has_state = True
        faults.forget(self._state.run)
        await self._open_past()
        self._console.record_to(self._log_file.write)
        log_capture.send_to(self._console)
        try:
            with _no_garbage_collection():
                await self._start_all()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - it is raised again, with its reason
            reason = first_reason(error)
            self._console.record("emulator.failed", level="error", reason=str(reason))
            raise reason from (None if reason is error else error)
        self._is_ready = True
        self.status.write_instance_file()

    async def _open_past(self) -> None:
        """Make the position that is asked for the database; before anything else, because it may be refused."""
        if self._options.past is None:
            return
        from emulator.storage.past import open_past

        begun = time.monotonic()
        found = await open_past(self._state, self._options.past)
        self._print_step("past", f"{found.replica}   position {found.txid}", begun)

    async def _start_all(self) -> None:
        kept = self._state.kept()
        self._follow_clock()
        s3_socket = await self._start_slow_processes(kept)
        self._make_components(s3_socket, kept)
        await self._start_platforms()
        async with asyncio.TaskGroup() as group:
            claim = group.create_task(self._claim_database())
            group.create_task(self._fork_client.wait_loaded())
        await self._start_database(claim.result())
        self._stoppers["functions"] = self._stop_functions
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_replica())
            for function in self._components.functions.all:
                group.create_task(self._start_function(function))
        await self._start_gateway()
        await self._register_webhooks()
        if (relay := self._components.relay) is not None:
            await self._start_relay(relay)
        self._start_ticks()

    def _follow_clock(self) -> None:
        """Tell the time by the clock that is kept with the rows."""
        self._clock = ClockPage(self._state.clock)
        self._clock.go_on()
        self._clock.follow()
        self._fork_client.common = {"clock": str(self._state.clock)}

    async def wait(self) -> None:
        """Return only by an exception: a component ended that can't be started again.

        Raises:
            EmulatorError: which component, and why.
        """
        if self._options.watch:
            self._in_background(self._watch())
        await self._broken

    async def stop(self) -> None:
        """Stop everything; the replica gets the last rows. Safe after a start that failed half-way."""
        self._is_stopping = True
        self._is_ready = False
        self._stop_watching.set()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for name in _STOP_ORDER:
            try:
                if name in self._stoppers:
                    await self._stoppers[name]()
            except Exception as error:  # noqa: BLE001 - the other components must stop all the same
                self._console.event(name, f"did not stop cleanly: {error}", level="warning")
        if hasattr(self, "_components"):
            self._components.sockets.close()
        if self.has_state:
            self._state.remove_sockets()
        clock.move(None)
        self._console.record_to(None)
        self._log_file.close()
        self._lock.release()
        if not self._options.is_kept or (self._options.past is not None and self._state.is_blank):
            self._state.remove()

    async def _start_slow_processes(self, kept: dict[str, Any]) -> ports.ListeningSocket:
        """Start the fork server, unless it runs, and S3: they load libraries for a while. Returns the socket of S3."""
        s3_socket = ports.listen(kept["ports"].get("s3") or S3_PORT)
        self._s3 = S3Process(
            folder=self._state.s3,
            sock=s3_socket.sock,
            project=self._options.project,
            environment=of_shell(self._environ) | ONE_HEAP,
            faults=faults_by_hand.path_in(self._state.run),
            on_line=lambda text: self._console.line("s3", text),
            on_trouble=lambda text: self._console.event("s3", text, level="warning"),
        )
        self._fork_client.start()
        await self._s3.start()
        self._stoppers["s3"] = self._s3.stop
        return s3_socket

    def _make_components(self, s3_socket: ports.ListeningSocket, kept: dict[str, Any]) -> None:
        self._components = Components(
            self._options,
            kept,
            self._environ,
            self._console,
            clock=self._clock,
            s3=self._s3,
            s3_socket=s3_socket,
            fork_client=self._fork_client,
            status=self._read_status,
        )
        self.status = EmulatorStatus(self._components, self._console, self._started)

    async def _read_status(self) -> dict[str, Any]:
        if self._is_stopping or not self._is_ready:
            return self.status.facts(["it is stopping" if self._is_stopping else "it is still starting"], [], [])
        return self.status.facts(*await self._components.find_health())

    async def _start_platforms(self) -> None:
        components = self._components
        await components.platforms.start(components.sockets.platforms.sock)
        self._stoppers["platforms"] = components.stop_platforms
        self.status.print_header()

    async def _claim_database(self) -> Ready:
        """Agree with the replica on which database is the newest, as soon as S3 answers."""
        begun, components = time.monotonic(), self._components
        count = await self._s3.wait_ready()
        self._print_step("s3", f"{self._s3.url}   bucket {BUCKET}, {count} objects", begun)
        return await database.claim(self._state, components.replica_url, components.litestream.lease, components.aws)

    async def _start_database(self, agreed: Ready) -> None:
        """Create or migrate the database that was agreed on."""
        begun, components = time.monotonic(), self._components
        components.look_at_past()
        components.set_environments()
        facts = await database.prepare(self._fork_client, self._state.database, components.functions["api"].environment)
        count = f"{facts['messages']:,}".replace(",", " ")
        path = relative(self._state.database)
        self._print_step("db", f"{path}     WAL, schema {facts['schema']}, {count} messages", begun)
        components.learn_variables(facts["variables"], facts["of_gateway"])
        for note in components.notes_on_settings():
            self._console.note(note)
        if components.past is not None:
            return
        if facts["file"]:
            way = f": `{command_line('diff', self._state.path)}` shows how" if facts["differs"] else ""
            self._console.note(facts["file"] + way)
        if sentence := database.describe_replica(agreed, count):
            self._console.note(sentence)

    async def _start_replica(self) -> None:
        begun = time.monotonic()
        self._stoppers["replica"] = self._stop_replica
        await self._components.litestream.start_ready()
        self._print_step("replica", self._components.replica_url, begun)
        self._in_background(self._wait_until_fenced())

    async def _wait_until_fenced(self) -> None:
        try:
            await self._components.litestream.wait()
        except Fenced as error:
            raise AlreadyInUse(str(error)) from None

    async def _stop_replica(self) -> None:
        litestream, problem = self._components.litestream, None
        if litestream.pid is not None:
            problem = await litestream.sync(_SYNC_LIMIT_S)
            if problem is not None:
                self._console.event(
                    "replica",
                    f"the bucket lacks the last rows ({problem}). They are in the database, and the next start "
                    f"sends them",
                    level="warning",
                )
        if await litestream.stop() == 0 and problem is None:
            self._console.event("replica", "synced")

    async def _start_function(self, function: Function) -> None:
        begun = time.monotonic()
        await self._components.functions.start(function)
        self._print_step(function.name, self.status.describe_function(function), begun)

    async def _stop_functions(self) -> None:
        for name in await self._components.functions.stop():
            self._console.event(name, "did not stop in time and was killed", level="warning")

    async def _start_gateway(self) -> None:
        begun = time.monotonic()
        death = writer_death.WriterDeath(self._components, self._console)
        routes = [*writer_death.routes(death, self._components.tick_secret), web.post("/_emulator/clock", self._move)]
        application = self._components.gateway.application(routes)
        site = LimitedSite("the gateway", application, handler_cancellation=True, shutdown_timeout=0.5)
        self._stoppers["gateway"] = site.stop
        await site.start(self._components.sockets.gateway.sock)
        self._print_step("gateway", self._components.url, begun)

    async def _move(self, request: web.Request) -> web.Response:
        from emulator.system import clock_moves  # late: most emulators never move their clock

        components = self._components
        if (refused := components.door.refuse(request)) is not None:
            return refused
        if self._moves is None:
            self._moves = clock_moves.ClockMoves(components, self._clock, self._console)
            self._stoppers["clock"] = self._moves.close
        return await clock_moves.answer(self._moves, self._clock, self._console, request)

    async def _register_webhooks(self) -> None:
        begun = time.monotonic()
        if self._components.past is not None:
            self._print_step("platforms", "no webhook is registered: nothing comes in or goes out", begun)
            return
        # The test of a forged webhook makes the functions log refusals, which are no news to a person at the terminal.
        self._console.hides_all_but_errors = True
        await self._components.platforms.register()
        await self._components.platforms.offer_commands()
        self._print_step(
            "platforms", f"{', '.join(PLATFORMS)}   webhooks signed; forged ones are refused (tested)", begun
        )

    async def _start_relay(self, relay: RelayProcess) -> None:
        begun = time.monotonic()
        self._stoppers["relay"] = relay.stop
        files = self._components.files
        await relay.start(environment.for_relay(self._environ, files, self.status.environment()))
        self._print_step("relay", "what people type on Discord reaches ingest", begun)

    def _start_ticks(self) -> None:
        ticks = Ticks(self._components.functions, self._components.gateway, self._components.tick_secret)
        ticks.start(self._components.ticks)
        self._stoppers["ticks"] = ticks.stop
        self._ticks = ticks

    async def _watch(self) -> None:
        from emulator.system.reload import Reloader  # watchfiles takes its time: not while a person waits for "Ready"

        reloader = Reloader(self._components, self._ticks, self._console)
        await reloader.run(self._stop_watching, since_s=self._fork_client.started_s)

    def _print_step(self, name: str, detail: str, begun: float) -> None:
        self._console.step(name, detail, (time.monotonic() - begun) * 1000)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_task_ended)

    def _background_task_ended(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._broken.done():
            self._broken.set_exception(error)

    def _fork_server_ended(self, code: int) -> None:
        if not self._broken.done():
            self._broken.set_exception(
                NotReady(f"the fork server ended with code {code}, and all functions with it; start again")
            )
            self._broken.exception()  # mark it as retrieved: a start that fails reports its own reason
