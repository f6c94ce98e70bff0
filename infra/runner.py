"""Serves one function: ``python -m infra.runner ingest --port 9001 --timeout 10s``.

The handler is a functions-framework ASGI handler; around it stand what the framework leaves out: the module's
``lifespan``, a time limit that is enforced, one log line a request, and a stop that takes at most 3 s even while a
client listens to an event stream. The framework's own command serves the same handlers without these.

Exit codes (sysexits): 0 stopped by a signal, 3 the lifespan failed to start, 64 no such function or option, 70 the
function does not load, 73 can't listen, 78 the settings or the database refuse.
"""

import argparse
import asyncio
import contextlib
import errno
import faulthandler
import gc
import importlib
import logging
import os
import pkgutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.durations import parse_ms
from shared import framework, logs
from shared.errors import PostroomError, UnknownName
from shared.framework import FUNCTION_SIGNATURE_TYPE
from shared.settings import Settings

USAGE, SOFTWARE, CANT_CREATE, CONFIG = 64, 70, 73, 78

STOP_LIMIT_S = 2.8  # from the signal to the end, whatever the function does
GRACE_S = 1.5  # of which for answers under way
KEEP_ALIVE_S = 75  # longer than a load balancer's 60 s, or it meets connections that we are just closing
QUIET_PATHS = ("/healthz", "/tick")
LOGGED_PATH_LENGTH = 200
_DATE_EVERY_S = 1.0
GARBAGE_OBJECTS = 10_000  # new ones before Python looks for rings among them; its own 700 are a few requests

Opened = contextlib.AbstractAsyncContextManager[Mapping[str, Any] | None]

log = logs.get()


class _Stopped(BaseException):
    """A signal asked us to end before there was a server to tell."""


def serve(
    name: str,
    *,
    sock: socket.socket,
    timeout_ms: int,
    on_ready: Callable[[], None] | None = None,
    package: str = "functions",
) -> int:
    """Serve the function *name* on *sock* until SIGTERM or SIGINT. Blocks; call it from the main thread.

    Args:
        sock: bound; closed at the end.
        timeout_ms: how long a request may go without the beginning of an answer.
        on_ready: called once, when requests are answered.
        package: where the function's module is.

    Returns:
        The exit code for the process, see above. Whatever went wrong is in the log.
    """
    # Before anything slow, so that a signal while loading is a clean end too.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_at_once)
    try:
        logs.configure(name)
        return _serve(name, sock, timeout_ms, on_ready, package)
    except _Stopped:
        return 0
    except SystemExit as end:  # uvicorn's way to say that the lifespan did not start; it has logged why
        return end.code if isinstance(end.code, int) else SOFTWARE
    except UnknownName as error:
        log.error("function.unknown", reason=str(error))
        return USAGE
    except PostroomError as error:
        log.error("function.refused", reason=str(error))
        return CONFIG
    except Exception:
        log.exception("function.broken")
        return SOFTWARE
    finally:
        sock.close()


def known(package: str = "functions") -> tuple[str, ...]:
    """The functions that exist, sorted: one per file."""
    path = importlib.import_module(package).__path__
    return tuple(sorted(found.name for found in pkgutil.iter_modules(path) if not found.name.startswith("_")))


def load(name: str, package: str = "functions") -> Starlette:
    """The function's app, with its ``lifespan`` attached.

    Raises:
        UnknownName: there is no such function; lists those that exist. Nothing else can be loaded by a name.
    """
    names = known(package)
    if name not in names:
        raise UnknownName("function", name, names)
    module = importlib.import_module(f"{package}.{name}")
    app = _framework_app(name, module)
    app.router.lifespan_context = _Lifespan(module.lifespan)
    return app


class _Lifespan:
    """The function's own; but what it refuses to start with is one line in the log, and not uvicorn's traceback."""

    def __init__(self, lifespan: Callable[[Starlette], Opened]) -> None:
        self._lifespan = lifespan
        self.has_refused = False

    @contextlib.asynccontextmanager
    async def __call__(self, app: Starlette) -> AsyncIterator[Mapping[str, Any]]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                state = await stack.enter_async_context(self._lifespan(app))
            except PostroomError as error:
                log.error("function.refused", reason=str(error))
                logging.getLogger("uvicorn.error").disabled = True
                self.has_refused = True
                raise
            yield state or {}


def _framework_app(name: str, module: ModuleType) -> Starlette:
    os.environ.pop("LOG_EXECUTION_ID", None)  # it would put another log in the place of ours, by way of Flask
    before = os.environ.get(FUNCTION_SIGNATURE_TYPE)
    app: Starlette = framework.aio.create_asgi_app_from_module(  # type: ignore[no-untyped-call]
        name, module.__file__, "http", module, module.__spec__
    )
    # The framework leaves a variable behind, which the programs that a function starts need not see.
    if before is None:
        os.environ.pop(FUNCTION_SIGNATURE_TYPE, None)
    # Its handler of exceptions begins a second answer when one had begun; Guard does better. And it makes up an id for
    # each request that only lines of its own would show.
    superfluous: tuple[object, ...] = (framework.aio.ExceptionHandlerMiddleware, framework.execution_id.AsgiMiddleware)
    app.user_middleware = [layer for layer in app.user_middleware if layer.cls not in superfluous]
    return app


def _serve(name: str, sock: socket.socket, timeout_ms: int, on_ready: Callable[[], None] | None, package: str) -> int:
    app = load(name, package)

    from shared.db.migrate import migrate

    settings = Settings.load()
    migrate(settings.db, timezone=settings.timezone, agents_file=settings.agents_file)
    guard = Guard(app, name=name, timeout_ms=timeout_ms)
    config = uvicorn.Config(
        guard,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,  # type: ignore[arg-type]  # handed to asyncio.wait_for, which takes parts
    )
    try:
        server = Server(config, guard, on_ready)
        for number in (signal.SIGTERM, signal.SIGINT):  # from here on nothing may be broken off where it stands
            signal.signal(number, server.handle_exit)
        server.run(sockets=[sock])
    except SystemExit:
        lifespan = app.router.lifespan_context
        if isinstance(lifespan, _Lifespan) and lifespan.has_refused:
            return CONFIG
        raise
    return 0


class Server(uvicorn.Server):
    """uvicorn, but: it says when it is ready, ends event streams at once, and ends in time."""

    def __init__(self, config: uvicorn.Config, guard: "Guard", on_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._guard = guard
        self._on_ready = on_ready
        self._starting: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.should_exit:
            log.info("function.stopped", reason="before it was ready")
            return
        self._starting = asyncio.ensure_future(super().startup(sockets))
        try:
            await self._starting
        except asyncio.CancelledError:
            if not self.should_exit:
                raise
            log.info("function.stopped", reason="before it was ready")
        if self.started and not self.should_exit:
            # What is loaded stays: looking through all of it for garbage would stop every request for 50 ms at a time.
            gc.collect()
            gc.freeze()
            gc.set_threshold(GARBAGE_OBJECTS)
            log.info("function.ready")
            if self._on_ready is not None:
                self._on_ready()

    async def main_loop(self) -> None:
        """uvicorn's own looks ten times a second whether it is to end, and nearly all that we do when idle was that.

        Ours is told. Once a second remains, for the time in the answers' headers.
        """
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_EVERY_S):
                    await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._guard.end_streams()
        await super().shutdown(sockets)
        log.info("function.stopped")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """At a signal: begin to stop; again Ctrl-C: don't wait for answers under way.

        Not uvicorn's own, which would raise the signal once more at the end and so spoil the exit code.
        """
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        if not self.should_exit:
            # Works even when the event loop is blocked: shows on stderr where, and ends the process with code 1.
            # Never called off, because what follows (executors, threads) can hang as well.
            faulthandler.dump_traceback_later(STOP_LIMIT_S, exit=True, file=sys.__stderr__ or sys.stderr)
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
        if self._starting is not None and not self._starting.done():
            logging.getLogger("uvicorn.error").disabled = True  # it would report the lifespan's end as a failure
            self._starting.get_loop().call_soon_threadsafe(self._starting.cancel)


class Guard:
    """Around the whole app: the time limit, the log line, and the end of event streams.

    Time limit: without the beginning of an answer after *timeout_ms* the request is cancelled and answered with 504.
    An answer that has begun is never cut by it.
    """

    def __init__(self, app: ASGIApp, *, name: str, timeout_ms: int) -> None:
        self._app = app
        self._name = name
        self._timeout_ms = timeout_ms
        self._streams: set[_Answer] = set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.monotonic()
        answer = _Answer(send, self._stream_begins)
        try:
            await self._answer(scope, receive, answer)
        finally:
            self._streams.discard(answer)
            write = log.debug if scope["path"] in QUIET_PATHS else log.info
            write(
                "request.done",
                method=scope["method"],
                path=_shown(scope),
                status=answer.status,
                ms=round((time.monotonic() - begun) * 1000, 1),
            )

    def end_streams(self) -> None:
        """Finish the event streams, which never end by themselves; their readers connect again."""
        self._stopping = True
        for answer in self._streams:
            answer.cut()

    def _stream_begins(self, answer: "_Answer") -> None:
        self._streams.add(answer)
        if self._stopping:
            answer.cut()

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000) as answer.limit:
                await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not answer.is_cut:
                raise
            await answer.finish()
        except TimeoutError:
            if answer.limit.expired():
                log.warning("request.timeout", path=_shown(scope), timeout_ms=self._timeout_ms)
                sentence = f"{self._name} did not answer within {self._timeout_ms / 1000:g} s; the request was given up"
                await JSONResponse({"error": sentence}, 504)(scope, receive, answer.send)
            else:
                await self._failed(scope, receive, answer)
        except Exception:  # noqa: BLE001 - the boundary: _failed logs it
            await self._failed(scope, receive, answer)

    async def _failed(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        """An exception that the function let through: 500 if there is still time for it, else the connection breaks."""
        log.exception("request.failed", method=scope["method"], path=_shown(scope))
        if answer.status == 0:
            sentence = f"{self._name} failed; the reason is in its log"
            await JSONResponse({"error": sentence}, 500)(scope, receive, answer.send)


class _Answer:
    """Passes one answer on and remembers how far it got: ``status`` is 0 until it has begun."""

    def __init__(self, send: Send, on_stream: Callable[["_Answer"], None]) -> None:
        self._send = send
        self._on_stream = on_stream
        self._task = asyncio.current_task()
        self._is_complete = False
        self.limit = asyncio.timeout(None)
        self.status = 0
        self.is_cut = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.status == 0 and self.limit.expired():
                await asyncio.sleep(0)  # the limit's cancellation is on its way: this is where it arrives
            self.status = message["status"]
            if not self.limit.expired():
                self.limit.reschedule(None)
            await self._send(message)
            if _is_event_stream(message):
                self._on_stream(self)
            return
        if message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    def cut(self) -> None:
        """Cancel the function's side of this answer; :meth:`finish` then ends ours."""
        if self._task is not None and not self.is_cut:
            self.is_cut = True
            self._task.cancel()

    async def finish(self) -> None:
        """A proper last chunk, after a cut."""
        if self._task is not None:
            self._task.uncancel()
        if self.status and not self._is_complete:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


def _shown(scope: Scope) -> str:
    """The path for the log: without the query, and not longer than somebody wants to read."""
    return str(scope["path"])[:LOGGED_PATH_LENGTH]


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )


def _stop_at_once(number: int, frame: FrameType | None) -> None:
    raise _Stopped


class _Usage(Exception):
    """The command line is wrong; the message is the whole sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise _Usage(message)


def _duration_ms(text: str) -> int:
    try:
        return parse_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; write a number from 0 to 65535")
    return int(text)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="runner", description="Serve one function.", allow_abbrev=False)
    parser.add_argument("name", help="the function: the name of a file in functions/")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=_port, help="listen here; 0 picks a free one and logs it")
    where.add_argument("--fd", type=int, help="the number of an inherited listening socket")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument(
        "--timeout", type=_duration_ms, default=10_000, help="limit of a request, such as 10s (default)"
    )
    options = parser.parse_args(arguments)
    if options.name not in known():
        raise _Usage(str(UnknownName("function", options.name, known())))
    return options


def _listen(options: argparse.Namespace) -> socket.socket:
    if options.fd is not None:
        sock = socket.socket(fileno=options.fd)
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.detach()
            raise OSError(errno.EINVAL, "not a listening socket")
        return sock
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    return socket.create_server((options.host, options.port), family=family, backlog=2048)


def _why_not(options: argparse.Namespace, error: OSError) -> str:
    if options.fd is not None:
        return f"can't serve file descriptor {options.fd}: {error.strerror or error}; pass a listening socket"
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {options.port} on {options.host} is in use: stop what listens there, or choose another with --port"
        )
    return f"can't listen on port {options.port} of {options.host}: {error.strerror or error}"


def main(arguments: Sequence[str]) -> int:
    """The command line; see the module for the exit codes."""
    try:
        options = _parse(arguments)
    except _Usage as error:
        sys.stderr.write(f"runner: {error}\n")
        return USAGE
    try:
        sock = _listen(options)
    except OSError as error:
        sys.stderr.write(f"runner: {_why_not(options, error)}\n")
        return CANT_CREATE
    address = sock.getsockname()

    def ready() -> None:
        log.info("function.listening", host=address[0], port=address[1])

    return serve(options.name, sock=sock, timeout_ms=options.timeout, on_ready=ready)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
