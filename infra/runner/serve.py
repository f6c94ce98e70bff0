"""Serves one function: ``python -m infra.runner ingest --port 9001 --timeout 10s``.

The handler is a functions-framework ASGI handler; around it stand what the framework leaves out: the module's
``lifespan``, a time limit that is enforced, one log line a request, and a stop that takes at most 3 s even while a
client listens to an event stream. The framework's own command serves the same handlers without these.

Exit codes (sysexits): 0 stopped by a signal, 3 the lifespan failed to start, 64 no such function or option, 70 the
function does not load, 73 can't listen, 78 the settings or the database refuse.
"""

import argparse
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from infra.runner.loader import Lifespan, known, load
from infra.runner.request_guard import RequestGuard
from infra.runner.server import FunctionServer
from shared.core import logs
from shared.core.durations import parse_ms
from shared.core.errors import PostroomError, UnknownName
from shared.core.settings import Settings

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


def _serve(name: str, sock: socket.socket, timeout_ms: int, on_ready: Callable[[], None] | None, package: str) -> int:
    app = load(name, package)

    from shared.roster.new_database import prepare_database

    settings = Settings.load()
    prepare_database(settings.db, timezone=settings.timezone, agents_file=settings.agents_file)
    try:
        server = FunctionServer(RequestGuard(app, name=name, timeout_ms=timeout_ms), on_ready)
        for number in (signal.SIGTERM, signal.SIGINT):  # from here on nothing may be broken off where it stands
            signal.signal(number, server.handle_exit)
        server.run(sockets=[sock])
    except SystemExit:
        lifespan = app.router.lifespan_context
        if isinstance(lifespan, Lifespan) and lifespan.has_refused:
            return os.EX_CONFIG
        raise
    return 0


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
        return os.EX_USAGE
    try:
        sock = _listen(options)
    except OSError as error:
        sys.stderr.write(f"runner: {_why_not(options, error)}\n")
        return os.EX_CANTCREAT
    address = sock.getsockname()

    def ready() -> None:
        log.info("function.listening", host=address[0], port=address[1])

    return serve(options.name, sock=sock, timeout_ms=options.timeout, on_ready=ready)
