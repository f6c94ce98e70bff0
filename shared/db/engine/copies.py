"""Copies of a database: one file, of one instant, checked before it gets its name.

Before an upgrade such a copy is kept beside the database, as ``postroom.db.schema-28``: the way back to the release
that had this schema (``emulator rollback``). The next upgrade replaces it.
"""

import re
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import apsw

from shared.core import durability
from shared.core.errors import DatabaseRefused, DatabaseUnavailable
from shared.db.engine import owner_only
from shared.db.engine.connection import open_connection, rows, scalar
from shared.db.engine.schema import KEEP_IT

_MARGIN_BYTES = 16 * 2**20  # of the disk: the migrations and the log want some of it too
_TABLES = """
    SELECT name
      FROM sqlite_schema
     WHERE type = 'table' AND rootpage > 0 AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_litestream_*'
     ORDER BY name
"""

Counts = Mapping[str, int]


def counts(conn: apsw.Connection, schema: str = "main") -> Counts:
    """How many rows each table has that is not SQLite's or Litestream's own."""
    names = [name for (name,) in rows(conn, _TABLES.replace("sqlite_schema", f"{schema}.sqlite_schema"))]
    return {name: scalar(conn, f'SELECT count(*) FROM {schema}."{name}"') for name in names}


def broken_references(conn: apsw.Connection) -> int:
    """How many rows name a row of another table that is not there."""
    found: int = scalar(conn, "SELECT count(*) FROM pragma_foreign_key_check")
    return found


def place(database: Path, version: int | str) -> Path:
    """Where the copy is that has the schema *version*."""
    return database.with_name(f"{database.name}.schema-{version}")


def find_all(database: Path) -> dict[int, Path]:
    """The copies beside the database, by the version of their schema."""
    named = re.compile(re.escape(database.name) + r"\.schema-([1-9][0-9]*)")
    folder = database.parent
    found = {each: match[1] for each in folder.iterdir() if (match := named.fullmatch(each.name))}
    return {int(version): each for each, version in sorted(found.items(), key=lambda pair: int(pair[1]))}


def size(conn: apsw.Connection) -> int:
    """The bytes of the database without its log."""
    pages: int = scalar(conn, "PRAGMA page_count")
    page_bytes: int = scalar(conn, "PRAGMA page_size")
    return pages * page_bytes


def room(folder: Path) -> int:
    """The bytes that are free on the disk that has the folder."""
    return shutil.disk_usage(folder).free


def check_room(path: Path, needed: int, what: str) -> None:
    """
    Raises:
        DatabaseUnavailable: the disk lacks room for what is to be written beside *path*.
    """
    free = room(path.parent)
    if free < needed + _MARGIN_BYTES:
        raise DatabaseUnavailable(
            f"there is no room for {what}: it needs {_megabytes(needed + _MARGIN_BYTES)}, and the disk of "
            f"{path.parent} has {_megabytes(free)} free. Make room there, and start again; {path} is unchanged"
        )


def make(conn: apsw.Connection, database: Path, target: Path) -> Counts:
    """Copy what the connection's database holds at this instant, and check the copy. Writers may continue.

    A copy of that name is replaced when the new one is whole. A process that is killed here leaves a file that ends
    with ``.copying``, which the next one replaces.

    Returns:
        The number of rows of each table.

    Raises:
        DatabaseUnavailable: no room, or the copy can't be written; nothing is left of it.
        DatabaseRefused: the database is damaged; nothing is left of the copy.
    """
    check_room(database, size(conn), f"a copy of {database.name}")
    fresh = target.with_name(f"{target.name}.copying")
    _remove(fresh)
    try:
        before = _write(conn, fresh)
        _check(fresh, database, before)
        durability.sync(fresh)
        fresh.replace(target)
        durability.sync(target.parent)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise _damaged(database, str(error)) from None
    except (OSError, apsw.Error) as error:
        raise DatabaseUnavailable(
            f"{database.name} could not be copied to {target} ({error}): make room there, and check its permissions; "
            f"{database} is unchanged"
        ) from None
    finally:
        _remove(fresh)
    return before


def _write(conn: apsw.Connection, fresh: Path) -> Counts:
    owner_only.make_file(fresh)
    with closing(apsw.Connection(str(fresh))) as copy:
        copy.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").fetchall()  # of no use before it is whole
        conn.execute("BEGIN")  # one instant for the count and the copy
        try:
            before = counts(conn)
            with copy.backup("main", conn, "main") as backup:
                backup.step()
        finally:
            conn.execute("ROLLBACK")
    with closing(apsw.Connection(str(fresh))) as copy:
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, which needs no log to be read
    return before


def _check(fresh: Path, database: Path, before: Counts) -> None:
    with closing(open_connection(fresh, readonly=True)) as copy:
        problem = scalar(copy, "PRAGMA quick_check")
        copied = counts(copy)
    if problem != "ok" or copied != before:
        raise _damaged(database, "a copy of it has other rows" if problem == "ok" else problem)


def _damaged(database: Path, why: str) -> DatabaseRefused:
    return DatabaseRefused(database, f"is damaged: {why}", f"Nothing was changed. {KEEP_IT}")


def _remove(fresh: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.0f} MiB"
