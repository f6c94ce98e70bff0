"""``emulator logs``: the log of the state folder, filtered; also of an emulator that has ended."""

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal, get_args

import typer

from emulator.base import errors
from emulator.base.console import Console
from emulator.base.errors import ExitCode
from emulator.base.hints import STATE, command_line
from emulator.base.log_file import OLDER_FILES
from emulator.base.state import StateFolder
from emulator.cli.commands import frame
from emulator.cli.spans import span_ms
from shared.core.time import clock

Level = Literal["debug", "info", "warning", "error", "critical"]
_LEVELS = get_args(Level)
_LOOK_EVERY_S = 0.1
Wanted = Callable[[str, dict[str, Any]], bool]
"""Whether a line, and the object in it, is asked for."""


def logs(
    functions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FUNCTION]…", help="Only of these: ingest, dispatch, …, emulator. Without one: of all."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    since: Annotated[str | None, typer.Option(help="Only the last time, such as 30s, 5m or 2h.")] = None,
    level: Annotated[Level, typer.Option(help="This level or a worse one.")] = "debug",
    message: Annotated[str | None, typer.Option(help="Only lines that name this message (or any other id).")] = None,
    grep: Annotated[str | None, typer.Option(help="Only lines in which this regular expression is found.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many of the last lines.")] = 200,
    state: Annotated[Path, typer.Option(help="The state folder of the emulator.")] = STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print each line as one JSON object.")] = False,
) -> None:
    """Show what the emulator and its functions reported, now and before: logs are kept in the state folder."""
    file = StateFolder(state.resolve()).log_file
    wanted = frame.run_or_fail(lambda: _filter(functions or (), level, since, message, grep))
    if not file.exists():
        frame.fail(
            f"there is no log in {state} yet: start the emulator with `{command_line('run', state)}`",
            ExitCode.MISSING,
        )
    console = Console("json" if as_json else "pretty", sys.stdout)
    with file.open(encoding="utf-8", errors="replace") as newest:
        for line in deque((line for line in _kept(file, newest) if wanted(*line)), limit):
            _show(console, *line)
        try:
            for line in _new(file, newest) if follow else ():
                if wanted(*line):
                    _show(console, *line)
        except KeyboardInterrupt:
            return


def _filter(functions: Sequence[str], level: Level, since: str | None, message: str | None, grep: str | None) -> Wanted:
    """
    Raises:
        InvalidInput: an option's value can't be used.
    """
    try:
        oldest = None if since is None else clock.machine_ms() - span_ms(since)
        pattern = re.compile(grep or "")
        least = _LEVELS.index(level)
    except re.error as error:
        raise errors.InvalidInput(f"--grep {grep!r} is no regular expression: {error}") from None
    except ValueError as error:
        raise errors.InvalidInput(f"--since {error}") from None

    def wanted(line: str, facts: dict[str, Any]) -> bool:
        return (
            (not functions or _whose(facts) in functions)
            and _rank(facts) >= least
            and (message is None or message in line)
            and pattern.search(line) is not None
            and (oldest is None or _at_ms(facts) >= oldest)
        )

    return wanted


def _whose(facts: dict[str, Any]) -> str:
    return str(facts.get("function", "emulator"))


def _rank(facts: dict[str, Any]) -> int:
    level = facts.get("level", "info")
    return _LEVELS.index(level) if level in _LEVELS else 1


def _at_ms(facts: dict[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(facts.get("timestamp"))).timestamp() * 1000
    except ValueError:
        return 0.0


def _kept(file: Path, newest: IO[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All lines that are kept, the oldest first; the newest file is read to its present end."""
    for number in range(OLDER_FILES, 0, -1):
        older = file.with_name(f"{file.name}.{number}")
        if older.exists():
            with older.open(encoding="utf-8", errors="replace") as lines:
                yield from map(_parsed, lines)
    yield from map(_parsed, newest)


def lines_after(file: Path, position: int) -> list[dict[str, Any]]:
    """The objects of the log file behind this position (bytes), in order; of the whole file if it is a newer one."""
    if not file.exists():
        return []
    with file.open("rb") as log:
        log.seek(position if position <= file.stat().st_size else 0)
        return [_parsed(line.decode("utf-8", "replace"))[1] for line in log]


def _new(file: Path, opened: IO[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line that comes, for ever; *opened* is at its end. Follows a full file to the next one."""
    rest = ""
    while True:
        rest += opened.read()
        *lines, rest = rest.split("\n")
        yield from map(_parsed, lines)
        if lines:
            continue
        if file.exists() and not os.path.samestat(os.fstat(opened.fileno()), file.stat()):
            with file.open(encoding="utf-8", errors="replace") as newer:
                yield from _new(file, newer)
        time.sleep(_LOOK_EVERY_S)


def _parsed(line: str) -> tuple[str, dict[str, Any]]:
    text = line.rstrip("\n")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return text, found if isinstance(found, dict) else {"event": text}


def _show(console: Console, line: str, facts: dict[str, Any]) -> None:
    console.line(_whose(facts), line)
