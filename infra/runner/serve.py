"""Serves one function: ``python -m infra.runner ingest --port 9001 --timeout 10s``.

The handler is a functions-framework ASGI handler. The runner adds what the framework lacks: the module's ``lifespan``,
an enforced time limit, one log line for each request, and a stop within 3 s, even while a client listens to an event
stream. The framework's own command serves the same handlers without these.

With ``--standby`` the function is loaded, and opens nothing and refuses connections until ``infra.standby`` of this
host has taken the replica's lease.

Exit codes (sysexits): 0 stopped by a signal, 3 the lifespan failed to start, 64 no such function or option, 70 the
function does not load, 73 can't listen, 78 the settings or the database can't be used.
"""

import argparse
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from infra.processes import give_way
from infra.runner import writer
from infra.runner.loader import Lifespan, function_names, load, niceness_of, writer_process_of
from infra.runner.request_guard import RequestGuard
from infra.runner.server import FunctionServer
from infra.serving import wait_until_served
from infra.watchdog import Watchdog
from shared.core import logs, page_links
from shared.core.errors import ConfigInvalid, PostroomError, UnknownName
from shared.core.settings import Settings
from shared.core.time.durations import parse_ms
from shared.runtime.kick import SignsOfLife

log = logs.get()


class _Stopped(BaseException):
    """A signal came before there was a server to stop."""


class _EarlySignal:
    """The handler of signals until there is a server to stop.

    Python drops an exception that is raised while it frees an object, so the signal is remembered too.
    """

    has_come = False

    def __init__(self) -> None:
        sys.unraisablehook = self._say_dropped

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        raise _Stopped

    @staticmethod
    def _say_dropped(dropped: "sys.UnraisableHookArgs") -> None:
        """As Python says it, but for our own, which is no fault."""
        if dropped.exc_type is not _Stopped:
            sys.__unraisablehook__(dropped)


def serve(
    name: str,
    *,
    sock: socket.socket,
    timeout_ms: int,
    on_ready: Callable[[], None] | None = None,
    package: str = "functions",
    is_standby: bool = False,
    writer_program: Sequence[str] = writer.PROGRAM,
) -> int:
    """Serve the function *name* on *sock* until SIGTERM or SIGINT. Blocks; call it from the main thread.

    Args:
        sock: bound; closed at the end.
        timeout_ms: the time until a response must begin.
        on_ready: called once, when the function answers requests.
        package: the package of the function's module.
        is_standby: wait until ``infra.standby`` of this host says that the database may be opened.
        writer_program: the module, with its first arguments, of a writer process that takes another one's place.

    Returns:
        The exit code for the process, see above. The log has the reason for a failure.
    """
    # Before anything slow, so that a signal during loading ends the process cleanly too.
    early = _EarlySignal()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, early)
    try:
        logs.configure(name)
        return _serve(name, sock, timeout_ms, on_ready, package, is_standby, writer_program, early)
    except _Stopped:
        return 0
    except SystemExit as end:  # from uvicorn: the lifespan did not start; the reason is in the log
        return end.code if isinstance(end.code, int) else os.EX_SOFTWARE
    except UnknownName as error:
        log.error("function.unknown", reason=str(error))
        return os.EX_USAGE
    except PostroomError as error:
        log.error("function.refused", reason=str(error))
        return os.EX_CONFIG
    except Exception:
        log.exception("function.broken")
        return os.EX_SOFTWARE
    finally:
        sock.close()


def _serve(
    name: str,
    sock: socket.socket,
    timeout_ms: int,
    on_ready: Callable[[], None] | None,
    package: str,
    is_standby: bool,
    writer_program: Sequence[str],
    early: _EarlySignal,
) -> int:
    watchdog = Watchdog(os.environ)
    watchdog.hold_off()
    app = load(name, package)
    give_way(niceness_of(name, package))

    from shared.roster.new_database import prepare_database  # late: its import gives way too

    settings = Settings.load()
    page_links.serve_at(settings.public_url)
    _refuse_unnamed_database(settings)
    if writer_process := writer_process_of(name, package):
        parent = os.getpid()
        spawn = partial(writer.spawn, name, program=writer_program)
        writer_process.fork(partial(writer.begin, name, parent), spawn=spawn)
    if is_standby:
        log.info("function.standing_by")
        wait_until_served(settings.db.absolute())
    prepare_database(settings.db, timezone=settings.timezone, agents_file=settings.agents_file)
    try:
        signs = SignsOfLife(settings.sockets, name)
        signs.give()

        def on_turn() -> None:
            signs.give()
            watchdog.give()

        server = FunctionServer(RequestGuard(app, name=name, timeout_ms=timeout_ms), on_ready, on_turn)
        for number in (signal.SIGTERM, signal.SIGINT):  # from here on work under way may finish
            signal.signal(number, server.handle_exit)
        if early.has_come:
            raise _Stopped
        server.run(sockets=[sock])
        signs.end()
    except SystemExit:
        lifespan = app.lifespan_context
        if isinstance(lifespan, Lifespan) and lifespan.has_refused:
            return os.EX_CONFIG
        raise
    return 0


def _refuse_unnamed_database(settings: Settings) -> None:
    """Without ``POSTROOM_DB`` serve the database of the working folder, and begin none there.

    Raises:
        ConfigInvalid
    """
    if "db" not in settings.model_fields_set and not settings.db.exists():
        raise ConfigInvalid(
            f"POSTROOM_DB is not set, and there is no {settings.db} in {Path.cwd()}. Set POSTROOM_DB to the path of "
            f"the database; where that file is missing, the start makes a new one"
        )


class _Usage(Exception):
    """The command line is wrong; the message is a whole sentence."""


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
    where.add_argument("--port", type=_port, help="the port to listen on; 0 picks a free port and logs it")
    where.add_argument("--fd", type=int, help="the number of an inherited listening socket")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument(
        "--timeout", type=_duration_ms, default=10_000, help="the time limit of a request; default: 10s"
    )
    parser.add_argument(
        "--standby", action="store_true", help="be ready, and serve when infra.standby of this host has the lease"
    )
    options = parser.parse_args(arguments)
    if options.name not in function_names():
        raise _Usage(str(UnknownName("function", options.name, function_names())))
    return options


def _listen(options: argparse.Namespace) -> socket.socket:
    if options.fd is not None:
        sock = socket.socket(fileno=options.fd)
        sock.set_inheritable(False)  # the caller had to make it inheritable; a program that we start must not have it
        if not options.standby and not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.detach()
            raise OSError(errno.EINVAL, "not a listening socket")
        return sock
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    if options.standby:
        return _bind(family, (options.host, options.port))
    return socket.create_server((options.host, options.port), family=family, backlog=2048)


def _bind(family: int, address: tuple[str, int]) -> socket.socket:
    """A socket with the address, which refuses connections until the server listens on it."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


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
        return os.EX_USAGE
    try:
        sock = _listen(options)
    except OSError as error:
        sys.stderr.write(f"runner: {_why_not(options, error)}\n")
        return os.EX_CANTCREAT
    address = sock.getsockname()

    def ready() -> None:
        log.info("function.listening", host=address[0], port=address[1])

    return serve(options.name, sock=sock, timeout_ms=options.timeout, on_ready=ready, is_standby=options.standby)
