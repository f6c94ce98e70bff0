"""``emulator stop`` and ``emulator wait``: what a script needs to begin and to end with a running emulator."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import apsw
import typer

from emulator.base import errors
from emulator.base.clock_page import followed
from emulator.base.hints import STATE, command_line
from emulator.base.state import StateFolder, find_running
from emulator.cli import client
from emulator.cli.commands import frame
from emulator.cli.output import CommandResult, result
from emulator.cli.spans import timeout_option
from emulator.storage import due
from shared.core.time import clock
from shared.db.engine.connection import open_connection

_LOOK_EVERY_S = 0.05
T = TypeVar("T")

_HELP = "How long to wait at most"
State = Annotated[Path, typer.Option(help="The state folder of the emulator.")]


def stop(
    state: State = STATE,
    timeout: Annotated[float, timeout_option(_HELP, "15s")] = 15.0,
    as_json: frame.Json = False,
) -> None:
    """Stop the running emulator as Ctrl-C does, and wait for its end. Nothing to stop is no error."""
    folder = StateFolder(state.resolve())

    def work() -> CommandResult:
        instance = find_running(folder)
        if instance is None:
            return result({"stopped": None}, f"no emulator runs in {state}")
        pid = _until(
            lambda: (find_running(folder) or {}).get("pid"), timeout, f"the emulator in {state} is still starting"
        )
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        _until(
            lambda: find_running(folder) is None,
            timeout,
            f"emulator[{pid}] still runs after {timeout:g} s; to end it at once: kill -9 {pid}",
        )
        return result({"stopped": pid}, f"emulator[{pid}] has stopped; its data is in {state}")

    frame.end_with(work, as_json=as_json)


def wait(
    condition: Annotated[
        str, typer.Argument(help="ready, idle (no message and no answer is due), or a SELECT whose value becomes true")
    ] = "ready",
    state: State = STATE,
    timeout: Annotated[float, timeout_option(_HELP, "60s")] = 60.0,
    as_json: frame.Json = False,
) -> None:
    """Wait until the emulator is ready, has nothing left to do, or its rows meet a condition. Ends with 75 if late."""
    folder = StateFolder(state.resolve())
    begun = time.monotonic()

    def work() -> CommandResult:
        late = f"no emulator in {state} was ready within {timeout:g} s; to see why: `{command_line('status', state)}`"
        _until(lambda: _is_ready(folder), timeout, late)
        if condition != "ready":
            left = timeout - (time.monotonic() - begun)
            with followed(folder.clock):
                _until(_on_rows(folder, condition), left, f"{condition!r} was not true within {timeout:g} s")
        took_s = time.monotonic() - begun
        return result({"condition": condition, "seconds": round(took_s, 3)}, f"{condition}, after {took_s:.1f} s")

    frame.end_with(work, as_json=as_json)


def _is_ready(folder: StateFolder) -> bool:
    instance = find_running(folder) or {}
    return "urls" in instance and client.get_json(instance["urls"]["gateway"], "/_emulator/ready") == {
        "status": "ready"
    }


def _on_rows(folder: StateFolder, condition: str) -> Callable[[], bool]:
    """Whether the condition holds now; each call reads the newest rows.

    Raises:
        InvalidInput: it is no SELECT that this database understands.
    """
    conn = open_connection(folder.database, readonly=True)
    sql = due.IDLE if condition == "idle" else condition

    def holds() -> bool:
        try:
            return bool(conn.execute(sql, {"now": clock.now_ms()}).get)
        except (apsw.SQLError, apsw.ReadOnlyError, apsw.BindingsError) as error:
            raise errors.InvalidInput(f"{condition!r} is neither ready nor idle, nor a SELECT: {error}") from None

    holds()  # a mistake shows at once
    return holds


def _until(holds: Callable[[], T | None], limit_s: float, late: str) -> T:
    """The first true value of *holds*.

    Raises:
        TimedOut: there was none in time.
    """
    deadline = time.monotonic() + limit_s
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise errors.TimedOut(late)
        time.sleep(_LOOK_EVERY_S)
    return found
