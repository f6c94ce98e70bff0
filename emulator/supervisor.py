"""Starts everything that template.yaml names, keeps it up, and leaves nothing behind.

One asyncio process that owns the lock, every listening socket, the gateway, the ticks and the fake platforms; its
children are the fork server (and through it the functions), S3 and Litestream. What depends on nothing starts at once;
the database is complete before anything opens it, and a function runs only on a migrated one.
"""

import asyncio
import datetime
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator import datafile, environment, ownlogs, ports, replica
from emulator.console import Console
from emulator.failures import EmulatorError, Misconfigured, NotReady, Taken
from emulator.fleet import Fleet, Function, affected, forget_compiled
from emulator.forks import Forks
from emulator.objects import ObjectStore
from emulator.state import Lock, StateFolder, write_private
from emulator.typed import short, typed
from infra.earlier import retention_from
from infra.keeper import Fenced
from infra.lease import ttl_from

if TYPE_CHECKING:
    from infra.template import Deployment
    from infra.ticker import Tick

API_PORT = 3777  # where TinyAGI's clients look
S3_PORT = 9100
_SYNC_LIMIT_S = 3.0
_TICK_LIMIT_S = 10.0
# Who uses something stops before it.
_STOP_ORDER = ("ticks", "gateway", "functions", "platforms", "replica", "s3", "fork server")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    project: Path
    template: Path
    state: StateFolder
    port: int = 8080
    watch: bool = True
    is_kept: bool = True


@dataclass(slots=True)
class Sockets:
    """Bound before anything starts, so that every address is known from the beginning."""

    gateway: ports.Listening
    s3: ports.Listening
    platforms: ports.Listening
    functions: dict[str, ports.Listening] = field(default_factory=dict)

    def close(self) -> None:
        for listening in (self.gateway, self.s3, self.platforms, *self.functions.values()):
            listening.sock.close()


class Supervisor:
    """One running emulator. ``start``, ``wait`` until something ends it, ``stop``."""

    def __init__(self, options: Options, console: Console, environ: Mapping[str, str] | None = None) -> None:
        self._options = options
        self._state = options.state
        self._console = console
        self._environ = dict(os.environ if environ is None else environ)
        self._base = environment.base(self._environ)
        self._lock = Lock(self._state)
        self._started = time.monotonic()
        self._ready_s = 0.0
        self.has_state = False  # ours, once we have the lock
        self._is_ready = False
        self._is_stopping = False
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop_watching = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._closers: dict[str, Callable[[], Awaitable[Any]]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._sockets.gateway.port}"

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self._sockets.functions['api'].port}"

    @property
    def replica_url(self) -> str:
        return replica.url(self._sockets.s3.port)

    @property
    def is_ready(self) -> bool:
        """Every part is up at this moment."""
        return (
            self._is_ready
            and not self._is_stopping
            and self._fleet.is_up
            and self._objects.pid is not None
            and self._litestream.pid is not None
        )

    async def start(self) -> None:
        """Bring everything up.

        Raises:
            EmulatorError: says what did not come up and why. Call :meth:`stop` all the same.
        """
        self._state.prepare()
        self._lock.take()
        self.has_state = True
        ownlogs.send_to(self._console)
        self._kept = self._state.kept()
        # The two slow ones first: they load libraries while the rest is read.
        s3 = ports.listen(self._kept["ports"].get("s3") or S3_PORT)
        self._objects = ObjectStore(
            folder=self._state.s3,
            bucket=replica.BUCKET,
            sock=s3.sock,
            project=self._options.project,
            environment=self._base | {"MALLOC_ARENA_MAX": "1"},  # a thread for each connection, 8 MB less without
            on_line=lambda text: self._console.line("s3", text),
            on_trouble=lambda text: self._console.happened("s3", text, level="warning"),
        )
        self._forks = Forks(
            self._options.project, self._base, lambda text: self._console.line("zygote", text, True), self._lost_forks
        )
        await self._forks.start()
        self._closers["fork server"] = self._forks.stop
        await self._objects.start()
        self._closers["s3"] = self._objects.stop
        try:
            await self._start_rest(s3)
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
        if hasattr(self, "_sockets"):
            self._sockets.close()
        if self.has_state:
            self._state.tidy()
        self._lock.release()
        if not self._options.is_kept:
            self._state.remove()

    async def status(self) -> dict[str, Any]:
        """What ``/_emulator/status`` answers."""
        return {
            "ready": self.is_ready,
            "pid": os.getpid(),
            "state": str(self._state.path),
            "kept": self._options.is_kept,
            "uptime_s": round(time.monotonic() - self._started, 1),
            "ready_s": round(self._ready_s, 3),
            "urls": self.urls(),
            "functions": [function.facts() for function in self._fleet.functions],
            "ticks": [
                {"function": tick.function, "every_ms": tick.every_ms, "path": tick.path}
                for tick in self._deployment.ticks
            ],
            "s3": {"pid": self._objects.pid, "url": self._objects.url},
            "replica": {
                "pid": self._litestream.pid,
                "url": self.replica_url,
                "place": self._litestream.place,
                "behind": self._litestream.is_behind,
            },
        }

    def urls(self) -> dict[str, str]:
        return {
            "gateway": self.url,
            "chat": f"{self.url}/_emulator/chat",
            "api": self.api_url,
            "replica": self.replica_url,
            "s3": self._objects.url,
            "platforms": self._platforms.url,
        }

    def command_environment(self) -> dict[str, str]:
        """What a command gets that is run against us (``emulator exec``, and those over REST)."""
        token = self._fleet["api"].environment.get("POSTROOM_API_TOKEN")
        return {
            **({"POSTROOM_API_TOKEN": token} if token else {}),
            **environment.DUMMY_AWS,
            **self._platforms.environment(),
            "EMULATOR_URL": self.url,
            "EMULATOR_API": self.api_url,
            "POSTROOM_URL": self.api_url,
            "EMULATOR_CHAT": f"{self.url}/_emulator/chat",
            "EMULATOR_REPLICA_URL": self.replica_url,
            "EMULATOR_STATE": str(self._state.path),
            "EMULATOR_PID": str(os.getpid()),
            "POSTROOM_DB": str(self._state.database),
            "POSTROOM_RUN_DIR": str(self._state.run),
            "POSTROOM_TICK_SECRET": self._kept["tick_secret"],
        }

    async def _start_rest(self, s3: ports.Listening) -> None:
        self._deployment = self._read_template()
        self._files = environment.read_files(self._options.project)
        self._bind(s3)
        self._build()
        await self._platforms.start(self._sockets.platforms.sock)
        self._closers["platforms"] = self._platforms.stop
        self._greet()
        self._closers["functions"] = self._stop_functions
        async with asyncio.TaskGroup() as group:
            s3_up = group.create_task(self._start_s3())
            database = group.create_task(self._start_database(s3_up))
            group.create_task(self._start_replica(s3_up, database))
            for function in self._fleet.functions:
                group.create_task(self._start_function(function, database))
        await self._start_gateway()
        async with self._step("platforms") as step:
            self._console.is_calm = True
            await self._platforms.register()
            step.detail = "telegram, discord   webhooks signed; forged ones are refused (tried)"
        self._start_ticks()
        if self._options.watch:
            self._in_background(self._watch())
        self._is_ready = True
        self._ready_s = time.monotonic() - self._started
        self._write_instance()

    def _read_template(self) -> "Deployment":
        from infra import template

        path = self._options.template
        if not path.is_file():
            raise Misconfigured(f"{path} does not exist: start in the project's folder, or name it with --template")
        try:
            deployment = template.load(path)
        except template.TemplateInvalid as error:
            raise Misconfigured("\n".join(str(problem) for problem in error.problems)) from None
        if not any(function.name == "api" for function in deployment.functions):
            raise Misconfigured(f"{path} has no function 'api', which clients and the chat page need")
        return deployment

    def _bind(self, s3: ports.Listening) -> None:
        self._sockets = Sockets(
            gateway=ports.listen(self._options.port),
            s3=s3,
            platforms=ports.listen(self._kept["ports"].get("platforms") or 0),
        )
        for spec in self._deployment.functions:
            # Only the api's address is known to people; the others are behind the gateway.
            self._sockets.functions[spec.name] = ports.listen(API_PORT if spec.name == "api" else spec.port)
        self._kept["ports"] = {"s3": s3.port, "platforms": self._sockets.platforms.port}
        self._state.keep(self._kept)

    def _greet(self) -> None:
        deployment, options = self._deployment, self._options
        counts = (
            f"{len(deployment.functions)} functions, {len(deployment.routes)} routes, {len(deployment.ticks)} ticks"
        )
        kept = "kept" if options.is_kept else "thrown away at the end"
        self._console.say(
            f"postroom emulator {_version()}   {options.template.name} ok ({counts})   "
            f"state {short(self._state.path)} ({kept})",
            event="emulator.starting",
            pid=os.getpid(),
            state=str(self._state.path),
        )
        for sentence in environment.overruled(self._files, self._own_environment()):
            self._console.note(sentence)
        named = {"gateway": self._sockets.gateway, "s3": self._sockets.s3, "api": self._sockets.functions["api"]}
        for name, listening in named.items():
            if listening.instead_of is not None:
                by = f" by {listening.holder}" if listening.holder else ""
                self._console.note(f"port {listening.instead_of} is used{by} → {name} is at {listening.port}")

    def _build(self) -> None:
        from emulator.gateway import Gateway
        from emulator.platforms import Platforms, PlatformsConfig

        self._platforms = Platforms(
            PlatformsConfig(
                state=self._state.path,
                telegram_webhook_url=f"{self.url}/webhooks/telegram",
                discord_interactions_url=f"{self.url}/webhooks/discord",
            )
        )
        aws = self._base | environment.DUMMY_AWS
        self._litestream = replica.Litestream(
            database=self._state.database,
            replica=self.replica_url,
            run=self._state.run,
            lease=replica.lease(
                self.replica_url, self._state.owner, self._state.database, aws, ttl_from(self._environ)
            ),
            environment=self._base | environment.DUMMY_AWS,
            on_line=lambda text: self._console.line("replica", text),
            on_trouble=lambda text: self._console.happened("replica", text, level="warning"),
            kept_ms=retention_from(self._environ),
        )
        self._fleet = Fleet(self._forks, self._console, self._options.project)
        self._gateway = Gateway(
            self._deployment.routes,
            lambda name: self._fleet[name].upstream,
            ready=lambda: self.is_ready,
            status=self.status,
            platforms=lambda: self._platforms.url,
        )
        for name, listening in self._sockets.functions.items():
            spec = next(spec for spec in self._deployment.functions if spec.name == name)
            self._fleet.add(Function(spec, listening.sock, {}))

    def _own_environment(self) -> dict[str, str]:
        """What nobody overrides: it keeps a local run local."""
        return {
            **self._platforms.environment(),
            "POSTROOM_DB": str(self._state.database),
            "POSTROOM_RUN_DIR": str(self._state.run),
            "POSTROOM_TICK_SECRET": self._kept["tick_secret"],
            "POSTROOM_REPLICA_URL": self.replica_url,
            "POSTROOM_LITESTREAM_SOCKET": str(self._litestream.control),
            "POSTROOM_AGENTS_DIR": str(self._state.agents),
        }

    def _set_environments(self) -> None:
        """For every function, from the template as it is now."""
        own = self._own_environment()
        for function in self._fleet.functions:
            spec = next(spec for spec in self._deployment.functions if spec.name == function.name)
            function.environment = environment.for_function(
                self._environ, spec.environment, self._deployment.emulator.environment, self._files, own
            )

    async def _start_s3(self) -> None:
        async with self._step("s3") as step:
            objects = await self._objects.wait_ready()
            step.detail = f"{self._objects.url}   bucket {replica.BUCKET}, {objects} objects"

    async def _start_database(self, s3_up: "asyncio.Task[None]") -> None:
        """The file, when it is known that it is the newest, or restored: nothing of ours opens it before that."""
        await asyncio.gather(asyncio.shield(s3_up), self._forks.renew())
        aws = self._base | environment.DUMMY_AWS
        ready = await datafile.claim(self._state, self.replica_url, self._litestream.lease, aws)
        async with self._step("db") as step:
            self._set_environments()
            facts = await datafile.prepare(self._forks, self._state.database, self._fleet["api"].environment)
            count = f"{facts['messages']:,}".replace(",", " ")
            step.detail = f"{short(self._state.database)}     WAL, schema {facts['schema']}, {count} messages"
        if facts["file"]:
            way = f": `{typed('diff', self._state.path)}` shows how" if facts["differs"] else ""
            self._console.note(facts["file"] + way)
        if sentence := datafile.how_it_goes_on(ready, count):
            self._console.note(sentence)

    async def _start_replica(self, s3_up: "asyncio.Task[None]", database: "asyncio.Task[None]") -> None:
        await asyncio.shield(s3_up)
        await asyncio.shield(database)
        async with self._step("replica") as step:
            self._closers["replica"] = self._stop_replica
            await self._litestream.start_ready()
            step.detail = f"{self.replica_url}"
        self._in_background(self._until_fenced())

    async def _until_fenced(self) -> None:
        try:
            await self._litestream.wait()
        except Fenced as error:
            raise Taken(str(error)) from None

    async def _stop_replica(self) -> None:
        problem = None
        if self._litestream.pid is not None:
            problem = await self._litestream.sync(_SYNC_LIMIT_S)
            if problem is not None:
                self._console.happened(
                    "replica",
                    f"the last rows are not in the bucket yet ({problem}); they are in the database, and the "
                    f"next start sends them",
                    level="warning",
                )
        if await self._litestream.stop() == 0 and problem is None:
            self._console.happened("replica", "synced")

    async def _start_function(self, function: Function, database: "asyncio.Task[None]") -> None:
        await asyncio.shield(database)
        async with self._step(function.name) as step:
            await self._fleet.start(function)
            step.detail = self._describe_function(function)

    async def _stop_functions(self) -> None:
        for name in await self._fleet.stop():
            self._console.happened(name, "did not stop in time and was killed", level="warning")

    def _describe_function(self, function: Function) -> str:
        routes = [
            f"{','.join(route.methods) or 'ANY'} {route.path_pattern}"
            for route in self._deployment.routes
            if route.function == function.name
        ]
        ticks = [f"every {_period(tick.every_ms)}" for tick in self._deployment.ticks if tick.function == function.name]
        return f"{'; '.join(routes) or '-':<30} {', '.join(ticks):<12} {function.spec.source}"

    async def _start_gateway(self) -> None:
        from aiohttp import web

        async with self._step("gateway") as step:
            runner = web.AppRunner(
                self._gateway.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.5
            )
            await runner.setup()
            self._closers["gateway"] = runner.cleanup
            await web.SockSite(runner, self._sockets.gateway.sock).start()
            step.detail = self.url

    def _start_ticks(self) -> None:
        """Begin the schedules of the template, instead of those that run."""
        from infra.ticker import Tick, Ticker

        if self._ticking is not None:
            self._ticking.cancel()
        targets = [
            Tick(tick.function, tick.every_ms, f"http://127.0.0.1:{self._fleet[tick.function].port}{tick.path}")
            for tick in self._deployment.ticks
        ]
        ticker = Ticker(targets, self._post_tick)
        self._ticking = asyncio.get_running_loop().create_task(ticker.run())
        self._closers["ticks"] = self._stop_ticks

    async def _post_tick(self, tick: "Tick") -> int:
        """One ``POST /tick`` with the secret; the status of the answer."""
        from infra.ticker import SECRET_HEADER

        headers = {SECRET_HEADER: self._kept["tick_secret"]}
        return await self._gateway.post(tick.url, headers, limit_s=_TICK_LIMIT_S)

    async def _stop_ticks(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)

    async def _watch(self) -> None:
        """Replace what was saved."""
        from emulator.watch import changes

        template = self._options.template
        async for saved in changes(self._options.project, template, self._stop_watching):
            code = saved - {template}
            try:
                if template in saved:
                    await self._template_changed()
                if code:
                    await self._code_changed(code)
            except EmulatorError as error:
                self._console.happened("watch", str(error), level="error")

    async def _code_changed(self, saved: set[Path]) -> None:
        forget_compiled(path for path in saved if path.suffix == ".py")
        names = affected(saved, self._options.project, self._fleet.functions)
        if len(names) == len(self._fleet.functions):
            await self._forks.renew()
        because = ", ".join(sorted(short(path, self._options.project) for path in saved)[:3])
        await self._fleet.reload(names, because=because)

    async def _template_changed(self) -> None:
        """Routes and environments are taken over while running; another set of functions needs a new start."""
        found = self._read_template()
        if {spec.name for spec in found.functions} != {spec.name for spec in self._deployment.functions}:
            raise Misconfigured(
                f"{self._options.template.name} names other functions now: stop with Ctrl-C and start again"
            )
        from emulator.gateway import Router

        self._deployment = found
        self._gateway.router = Router(found.routes)
        for function in self._fleet.functions:
            function.spec = next(spec for spec in found.functions if spec.name == function.name)
        self._set_environments()
        self._start_ticks()
        await self._fleet.reload(
            [function.name for function in self._fleet.functions], because=self._options.template.name
        )

    def _in_background(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)

    def _lost_forks(self, code: int) -> None:
        if not self._broken.done():
            self._broken.set_exception(
                NotReady(f"the fork server ended with code {code}, and all functions with it; start again")
            )
            self._broken.exception()  # a start that failed tells its own reason

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() and not self._broken.done():
            self._broken.set_exception(task.exception() or RuntimeError("unreachable"))

    def _write_instance(self) -> None:
        write_private(
            self._state.instance_file,
            json.dumps(
                {
                    "pid": os.getpid(),
                    "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    "urls": self.urls(),
                    "environment": self.command_environment(),
                }
            ),
        )

    @asynccontextmanager
    async def _step(self, name: str) -> AsyncIterator["_Step"]:
        """Print the line when it is done; nothing when it failed, its error says all."""
        begun = time.monotonic()
        step = _Step()
        yield step
        self._console.step(name, step.detail, (time.monotonic() - begun) * 1000)

    def summarise(self) -> None:
        """The addresses, and what to do next."""
        urls = self.urls()
        self._console.say(
            f"\n  Gateway    {urls['gateway']:<34} Chat page  {urls['chat']}\n"
            f"  API        {urls['api']:<34} Terminal   {typed('chat telegram', self._state.path)}\n"
            f"  Replica    {urls['replica']}\n\n"
            f"Ready in {self._ready_s:.2f} s. Ctrl-C stops everything.\n",
            event="emulator.ready",
            ms=round(self._ready_s * 1000),
            urls=urls,
        )
        self._console.is_calm = False


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


def _version() -> str:
    with suppress(PackageNotFoundError):
        return version("postroom")
    return "(from its folder)"


def _period(ms: int) -> str:
    return f"{ms / 1000:g} s" if ms < 60_000 else f"{ms / 60_000:g} min"
