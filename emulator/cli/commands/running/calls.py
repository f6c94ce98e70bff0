"""``emulator cron`` and ``emulator invoke``: call a function of the running emulator now, and see what it does."""

import http.client
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import apsw
import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.base.hints import STATE
from emulator.base.state import StateFolder
from emulator.cli import client
from emulator.cli.commands import frame
from emulator.cli.commands.running.logs import lines_after
from emulator.cli.output import CommandResult, TextTable, local_time, result, shorten
from shared.core.http_head import TICK_HEADER
from shared.core.time.durations import time_span
from shared.db.engine.connection import open_connection

_LIMIT_S = 60.0
_TABLES = ("messages", "responses", "events", "dropped")
_SETTLES_S = 0.3  # what a function does behind its answer, and the log that follows it

cron_app = frame.group("Ticks: the clock calls each function that has one. What is planned: `emulator schedules`.")
State = Annotated[Path, typer.Option(help="The state folder of the emulator.")]


@cron_app.command("list")
def list_ticks(state: State = STATE, as_json: frame.Json = False) -> None:
    """List the functions that a tick calls, how often, and at which path."""

    def work() -> CommandResult:
        ticks = read_status(state)["ticks"]
        rows = [(each["function"], f"every {time_span(each['every_ms'])}", each["path"]) for each in ticks]
        return result(ticks, TextTable(("function", "tick", "path"), rows, "Nothing ticks here."))

    frame.end_with(work, as_json=as_json)


@cron_app.command("next")
def list_next(
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 5,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """List what is planned next, soonest first: each schedule's next run."""

    def work() -> CommandResult:
        found = sorted(client.find(state, None).get("schedules"), key=lambda each: each["nextAt"])[:count]
        rows = [
            (local_time(each["nextAt"]), each["label"], each["agentId"], shorten(each["message"])) for each in found
        ]
        return result(found, TextTable(("due", "schedule", "agent", "text"), rows, "Nothing is planned."))

    frame.end_with(work, as_json=as_json)


@cron_app.command("run")
def run_tick(
    function: Annotated[str, typer.Argument(help="A function that has a tick, such as sweep.")],
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Send the tick of a function now, and show what the function did: its log lines and the rows that came."""

    def work() -> CommandResult:
        ticks = {each["function"]: each["path"] for each in read_status(state)["ticks"]}
        if function not in ticks:
            raise errors.DoesNotExist(f"no tick calls {function!r}; these have one: {', '.join(ticks)}")
        secret = client.instance_in(state)["environment"]["POSTROOM_TICK_SECRET"]
        return _call(state, function, "POST", ticks[function], {TICK_HEADER: secret}, b"")

    frame.end_with(work, as_json=as_json)


def invoke(
    function: Annotated[str, typer.Argument(help="ingest, dispatch, deliver, sweep, recurrence or api.")],
    path: Annotated[str, typer.Option(help="The path of the request.")] = "/",
    method: Annotated[str | None, typer.Option(help="GET, or POST where there is data.")] = None,
    data: Annotated[str | None, typer.Option(help="The body; @FILE reads it from a file.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="A header, such as 'X-Name: value'.")
    ] = None,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Send one request to one function, past the gateway, and show its answer, its log lines and the rows that came."""

    def work() -> CommandResult:
        body = _read(data)
        headers = {"Content-Type": "application/json"} if body else {}
        headers |= dict(_pair(each) for each in header or ())
        return _call(state, function, method or ("POST" if body else "GET"), path, headers, body)

    frame.end_with(work, as_json=as_json)


def _read(data: str | None) -> bytes:
    if data is None or not data.startswith("@"):
        return (data or "").encode()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as error:
        raise errors.DoesNotExist(f"--data {data}: {error.strerror}") from None


def _pair(header: str) -> tuple[str, str]:
    name, colon, value = header.partition(":")
    if not colon:
        raise errors.InvalidInput(f"--header {header!r} is no header; write 'Name: value'")
    return name.strip(), value.strip()


def read_status(state: Path) -> dict[str, Any]:
    """What the running emulator says of itself, at ``/_emulator/status``.

    Raises:
        EmulatorError: none runs there, or it does not answer.
    """
    instance = client.instance_in(state)
    found = client.get_json(instance["urls"]["gateway"], "/_emulator/status", client.door_headers(instance))
    if found is None:
        raise client.no_answer(instance, state)
    return dict(found)


def _call(state: Path, function: str, method: str, path: str, headers: dict[str, str], body: bytes) -> CommandResult:
    """Send the request; the result has the answer, the function's log lines and the new rows.

    Raises:
        EmulatorError: there is no such function, or no answer came.
    """
    urls = {each["name"]: each["url"] for each in read_status(state)["functions"]}
    if function not in urls:
        raise errors.DoesNotExist(f"there is no function {function!r}; these run: {', '.join(urls)}")
    folder = StateFolder(state.resolve())
    conn = open_connection(folder.database, readonly=True)
    before = _newest(conn)
    log_end = folder.log_file.stat().st_size if folder.log_file.exists() else 0
    begun = time.monotonic()
    status, text = _send(urls[function], method, path, headers, body)
    took_ms = (time.monotonic() - begun) * 1000
    time.sleep(_SETTLES_S)
    lines = [facts for facts in lines_after(folder.log_file, log_end) if facts.get("function") == function]
    new = {table: last - before[table] for table, last in _newest(conn).items() if last > before[table]}
    facts = {"status": status, "ms": round(took_ms, 1), "body": text, "log": lines, "newRows": new}
    return result(
        facts,
        f"{function} answered {status} after {took_ms:.0f} ms",
        *([text] if text else []),
        *(f"log   {each.get('level', '')} {each['event']} {_rest(each)}" for each in lines),
        *(f"rows  {count} more in {table}" for table, count in new.items()),
        code=ExitCode.DONE if status < 400 else ExitCode.FAILED,
    )


def _send(url: str, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_LIMIT_S)
    try:
        connection.request(method, path, body=body or None, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise errors.NotReady(f"{method} {url}{path} got no answer: {error}") from None
    finally:
        connection.close()


def _newest(conn: apsw.Connection) -> dict[str, int]:
    """The largest id of each table."""
    return {table: conn.execute(f"SELECT coalesce(max(id), 0) FROM {table}").get for table in _TABLES}  # noqa: S608


_KNOWN: Sequence[str] = ("event", "level", "timestamp", "function")


def _rest(facts: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in facts.items() if name not in _KNOWN)
