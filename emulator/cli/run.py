"""``emulator run`` without its command line: it starts the emulator, and stops it at a signal.

What reads the command line is not imported here: see :mod:`emulator.cli.main`.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from emulator.base import console
from emulator.base.errors import EmulatorError, ExitCode, what_was_refused
from emulator.base.hints import STATE
from emulator.base.options import RunOptions
from emulator.base.shell import ending_signals, of_shell
from emulator.base.state import StateFolder
from emulator.base.terminal import PROSE, escape, indent_more
from emulator.processes.fork_client import ForkClient
from emulator.processes.start import Started
from shared.core.errors import PostroomError

TEMPLATE = Path("template.yaml")  # the default of --template


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the command line of ``emulator run`` asks for; *state* as a person wrote it."""

    options: RunOptions
    log: console.Mode | None
    state: Path
    is_quiet: bool = False


def without_options() -> RunRequest:
    """What ``emulator run`` asks for when no option stands behind it."""
    return RunRequest(RunOptions(Path.cwd(), TEMPLATE.resolve(), StateFolder(STATE.resolve())), None, STATE)


def run_emulator(ask: Callable[[], RunRequest | int], fork_server: Started | None = None) -> NoReturn:
    """Run it until a signal or a failure, and end this process with the code for that.

    Args:
        ask: what is asked for, or the exit code where it is nothing; called when all is imported.
        fork_server: it loads for as long as all the rest of a start takes; None: started now.
    """
    end_with(lambda: serve(ask, fork_server))


async def serve(ask: Callable[[], RunRequest | int], fork_server: Started | None) -> int:
    """Run the emulator until a signal; returns the exit code."""
    # Before the imports, which take half a second: asyncio's own handling of Ctrl-C would cancel this task.
    async with until_signalled() as signalled:
        fork_client = ForkClient(Path.cwd(), of_shell(os.environ), started=fork_server)
        fork_client.start()
        with _without_certificates():
            from emulator.system.supervisor import Supervisor  # slow, see above
        asked = ask()
        if isinstance(asked, int):
            await fork_client.stop()
            return asked
        out = console.for_run(asked.log, only_errors=asked.is_quiet)
        supervisor = Supervisor(asked.options, out, fork_client=fork_client)
        try:
            if await first_of(supervisor.start(), signalled):
                supervisor.status.print_summary()
                await first_of(supervisor.wait(), signalled)
        finally:
            begun = time.monotonic()
            if supervisor.has_state:
                out.say("\nStopping: functions, replica, S3 …", event="emulator.stopping")
            await supervisor.stop()
            if supervisor.has_state:
                kept = f"state kept in {asked.state}" if asked.options.is_kept else "state deleted"
                ms = (time.monotonic() - begun) * 1000
                out.say(f"Stopped in {ms / 1000:.1f} s, {kept}.", event="emulator.stopped", ms=round(ms))
    return 0


@contextlib.contextmanager
def _without_certificates() -> Iterator[None]:
    """aiohttp reads all certificates of this machine when it is imported; the emulator talks to this machine only."""
    of_ours = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
    os.environ.update(dict.fromkeys(of_ours, os.devnull))
    try:
        yield
    finally:
        for name, value in of_ours.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def end_with(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run the work, and end with its code or with the code of its failure."""
    try:
        code = asyncio.run(work())
    except EmulatorError as error:
        fail(str(error), error.exit_code)
    except PostroomError as error:
        fail(str(error), ExitCode.MISCONFIGURED)
    except OSError as error:
        fail(what_was_refused(error), ExitCode.OS_ERROR)
    raise SystemExit(code)


@contextlib.asynccontextmanager
async def until_signalled() -> Any:
    """A future of the first signal that asks us to stop; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()

    def stop_at(number: int) -> None:
        if first.done():
            os._exit(128 + number)  # the kernel kills the children: each dies with its parent
        first.set_result(number)

    numbers = ending_signals()
    for number in numbers:
        loop.add_signal_handler(number, stop_at, number)
    try:
        yield first
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def first_of(work: Coroutine[Any, Any, None], signalled: "asyncio.Future[int]") -> bool:
    """Do the work unless a signal comes first; True if the work was done."""
    if signalled.done():
        work.close()
        return False
    task: asyncio.Future[Any] = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task, signalled], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
    finally:
        if not task.done():  # a signal came, or this task was cancelled: leave no work running
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, EmulatorError):
                await task
    return False


def say(text: str) -> None:
    """Print to stderr."""
    print(escape(text, keep=PROSE), file=sys.stderr)  # noqa: T201


def fail(text: str, code: int) -> NoReturn:
    """End this process with the reason."""
    say(f"error: {indent_more(text, 2)}")
    raise SystemExit(code)
