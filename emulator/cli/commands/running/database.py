"""``emulator db``: SQL on the database of the state folder, read-only unless it is asked otherwise."""

import io
import itertools
import sys
from pathlib import Path
from typing import Annotated, Any

import apsw
import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.base.hints import STATE
from emulator.base.state import StateFolder
from emulator.base.terminal import escape
from emulator.cli.commands import frame
from emulator.cli.output import CommandResult, TextTable, result
from shared.db.engine.connection import open_connection

_AT_MOST = 10_000  # rows of one answer


def db(
    sql: Annotated[str | None, typer.Argument(help="One statement; without it, a shell with .help")] = None,
    write: Annotated[bool, typer.Option("--write", help="Allow changes. Asks for confirmation.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    state: Annotated[Path, typer.Option(help="The state folder of the emulator.")] = STATE,
    as_json: frame.Json = False,
) -> None:
    """Ask the database by SQL, also while the emulator runs. Nothing changes without --write."""
    database = StateFolder(state.resolve()).database
    if not database.exists():
        frame.fail(f"there is no database in {state}", ExitCode.MISSING)
    if write and not yes:
        if not sys.stdin.isatty():
            frame.fail("--write changes rows unseen by the functions: confirm with --yes", ExitCode.USAGE)
        if not typer.confirm(f"Change rows of {database}, unseen by the functions?"):
            raise typer.Exit(ExitCode.FAILED)
    conn = open_connection(database, readonly=not write)
    if sql is not None:
        frame.end_with(lambda: _answer(conn, sql), as_json=as_json)
    from apsw.shell import Shell  # late: SQLite's own shell, which only a person wants

    Shell(stdout=_Escaped(), db=conn).cmdloop(  # type: ignore[no-untyped-call, arg-type]
        "" if write else "The database is opened read-only. .help lists the shell's commands."
    )


class _Escaped(io.TextIOBase):
    """Standard output, on which the text of a row can't steer the terminal."""

    def write(self, text: str) -> int:
        return sys.stdout.write(escape(text, keep="\n\t"))

    def flush(self) -> None:
        sys.stdout.flush()


def _answer(conn: apsw.Connection, sql: str) -> CommandResult:
    """
    Raises:
        InvalidInput: SQLite refuses the statement.
    """
    from apsw.ext import query_info  # late, as below

    try:
        query = query_info(conn, sql)
        if query.query_remaining:
            raise errors.InvalidInput(f"one statement at a time; this is a second one: {query.query_remaining.strip()}")
        names = [column for column, _ in query.description]
        rows = [list(row) for row in itertools.islice(conn.execute(sql), _AT_MOST + 1)]
    except apsw.ReadOnlyError:
        raise errors.InvalidInput(
            "the statement changes rows: the database is open for reading only, unless with --write"
        ) from None
    except apsw.Error as error:
        raise errors.InvalidInput(f"SQLite says: {error}") from None
    if len(rows) > _AT_MOST:
        raise errors.InvalidInput(f"the statement gives more than {_AT_MOST} rows: add a LIMIT")
    facts = [dict(zip(names, map(_plain, row), strict=True)) for row in rows]
    return result(facts, TextTable(names, rows, "no rows" if names else "done"))


def _plain(value: Any) -> Any:
    """A value that JSON has: bytes become hexadecimal digits."""
    return value.hex() if isinstance(value, bytes) else value
