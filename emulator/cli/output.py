"""The result of a command: ``facts`` for programs (``--json``), sentences and tables for people.

Names, titles and reasons come from people and platforms. ``emulator.base.terminal`` escapes all of it, so that no name
moves the cursor, colours a line or looks like two lines. Where the output is no terminal, tables have full width and no
colours.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import IO, Any

from emulator.base.terminal import escape, escape_json

_MICRO = 1_000_000
_PAGE_WIDTH = 120
_PIPE_WIDTH = 100_000  # columns of a table that goes into a pipe
_INSTANTS_MS = range(10**12, 10**13)  # 2001 to 2286; no count or duration of ours is as large


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows under *columns*; *empty* is the sentence instead of a table without rows.

    *has_lines*: a cell may have several lines, and the table is as narrow as a page where it goes into a pipe.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    empty: str
    has_lines: bool = False


@dataclass(frozen=True, slots=True)
class FactList:
    """One thing, with a line for each of its facts; facts that are None or empty are left out."""

    facts: Mapping[str, Any]


Part = str | TextTable | FactList


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command; *code* is its exit code."""

    facts: Any
    parts: tuple[Part, ...]
    code: int = 0


def result(facts: Any, *parts: Part, code: int = 0) -> CommandResult:
    """A result of these parts, one below the other. A part that is text is one line."""
    return CommandResult(facts, parts, code)


def write(command_result: CommandResult, *, as_json: bool, stream: IO[str] | None = None) -> None:
    """Write the result for a program or for a person."""
    out = stream or sys.stdout
    if as_json:
        out.write(escape_json(json.dumps(command_result.facts, indent=2, ensure_ascii=False)) + "\n")
        return
    for number, part in enumerate(command_result.parts):
        if number and not (isinstance(part, str) and isinstance(command_result.parts[number - 1], str)):
            out.write("\n")
        _write(part, out)


def _write(part: Part, out: IO[str]) -> None:
    if isinstance(part, str):
        out.write(escape(part) + "\n")
    elif isinstance(part, TextTable) and not part.rows:
        out.write(escape(part.empty) + "\n")
    elif isinstance(part, TextTable):
        _write_table(part, out)
    else:
        out.writelines(f"{line}\n" for line in _lines(part))


def _lines(pairs: FactList) -> Iterator[str]:
    """Names at the left, values at the right; further lines of a value stand below its first line."""
    facts = {escape(name): cell(value, keep="\n") for name, value in pairs.facts.items()}
    width = max((len(name) for name in facts), default=0)
    for name, text in facts.items():
        first, *more = text.splitlines() or [""]
        if text:
            yield f"{name:<{width}}  {first}"
        for line in more:
            yield f"{'':{width}}  {line}".rstrip()


def _write_table(table: TextTable, out: IO[str]) -> None:
    from rich.box import SIMPLE_HEAD  # late: only tables need rich
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    is_terminal = out.isatty()
    pipe_width = _PAGE_WIDTH if table.has_lines else _PIPE_WIDTH
    console = Console(file=out, width=None if is_terminal else pipe_width, highlight=False, no_color=not is_terminal)
    box = SIMPLE_HEAD if is_terminal or table.has_lines else None
    grid = RichTable(box=box, pad_edge=False, show_edge=False, header_style="bold", show_lines=table.has_lines)
    for name in table.columns:
        grid.add_column(Text(escape(name)), overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell(value, keep="\n" if table.has_lines else "")) for value in row))
    with console.capture() as captured:
        console.print(grid)
    out.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def cell(value: Any, *, keep: str = "") -> str:
    """A value for a person: empty for None, yes or no for a boolean, text as it is, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return escape(", ".join(value), keep=keep)
    if isinstance(value, (dict, list, tuple)):
        return escape(json.dumps(value, ensure_ascii=False), keep=keep) if value else ""
    return escape(str(value), keep=keep)


def shorten(text: str, width: int = 60) -> str:
    """The first line, up to *width* characters, for a table; ``…`` marks that there is more."""
    first, *more = text.strip().splitlines() or [""]
    return first if len(first) <= width and not more else f"{first[: width - 1].rstrip()}…"


def local_time(at_ms: int | None) -> str:
    """An instant (ms UTC) in the time zone of this machine."""
    if at_ms is None:
        return ""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def readable(data: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an event, with its instants (ms UTC) in the time zone of this machine."""
    return {
        name: local_time(value) if isinstance(value, int) and value in _INSTANTS_MS else value
        for name, value in data.items()
    }


def in_dollars(micro: int | None) -> str:
    """``$1.25``; fractions of a cent only where there are any; empty where no price is known."""
    if micro is None:
        return ""
    exact = f"{Decimal(micro) / _MICRO:.6f}".rstrip("0")
    whole, _, fraction = exact.partition(".")
    return f"${whole}.{fraction:0<2}"
