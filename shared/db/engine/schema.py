"""The schema that our migrations make, and the refusal of a file that has another one.

A file may be cut, belong to another program, or have got a trigger or a view from one. SQLite runs a trigger inside
every writer, so a foreign one could change what is written; a foreign view is as little ours. Tables and indexes that
somebody added change nothing of ours, and stay. Litestream's tables are Litestream's.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import apsw

from shared.core.errors import DatabaseRefused, DatabaseUnavailable
from shared.db.engine import meta
from shared.db.engine.connection import rows, savepoint

_OBJECTS = """
    SELECT type, name, sql
      FROM sqlite_schema
     WHERE name NOT GLOB 'sqlite_*'
       AND tbl_name NOT GLOB '_litestream_*'
"""
# The statements of our migrations that change the set of tables; each begins its line.
_TABLE_CHANGE = re.compile(r"^CREATE TABLE (\w+)|^DROP TABLE (\w+)|^ALTER TABLE (\w+) RENAME TO (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"(-- .*\n)+")  # at the beginning of each migration
KEEP_IT = (
    "Move it away, and keep it; the next start restores the database from the replica, or begins an empty one if there "
    "is no replica"
)


class _SchemaObject(NamedTuple):
    """A table, index, trigger or view."""

    kind: str
    name: str
    sql: str | None


@cache
def migrations() -> Mapping[int, str]:
    """Version to SQL."""
    folder = Path(__file__).parents[1] / "migrations"
    found = {path.name: path.read_text("utf-8") for path in folder.glob("*.sql")}
    return {int(re.match(r"(\d{4})_", name)[1]): sql for name, sql in found.items()}  # type: ignore[index]


def sentence(version: int) -> str:
    """What the migration is for: the first sentence of its file."""
    comment = " ".join(_COMMENT.match(migrations()[version])[0].replace("-- ", "").split())  # type: ignore[index]
    return comment.partition(". ")[0].removesuffix(".") + "."


def inspect(conn: apsw.Connection, path: Path) -> int:
    """The version of the database's schema; 0 for a new database. Of a version later than ours it checks no more.

    Raises:
        DatabaseRefused: another program made or changed the schema.
        apsw.Error: SQLite can't read the file; :func:`explained` has the words.
    """
    with savepoint(conn):  # of one instant: another process may be migrating the file
        objects = [_SchemaObject(*row) for row in rows(conn, _OBJECTS)]
        version = _version(conn, path, objects) if objects else 0
    if not objects:
        return 0
    if version <= max(migrations()):
        _check_tables(path, objects, version)
        _check_triggers_and_views(path, objects)
    return version


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors inside into one sentence about *path*.

    Raises:
        DatabaseRefused: the file is damaged, or its schema is not ours.
        DatabaseUnavailable: the file can't be opened or written at the moment.
    """
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DatabaseRefused(path, f"is not a database that SQLite can read ({error})", KEEP_IT) from None
    except apsw.SQLError as error:
        raise DatabaseRefused(
            path, f"does not have the schema of Postroom that it says it has ({error})", KEEP_IT
        ) from error
    except (apsw.Error, OSError) as error:
        if path.is_dir():
            raise DatabaseRefused(
                path, "is a folder, and a database is a file", f"Name a file in POSTROOM_DB, such as {path}/postroom.db"
            ) from None
        raise DatabaseUnavailable(
            f"{path} can't be used at the moment ({error}): check its permissions, the space on its disk, and other "
            f"programs that have it open"
        ) from None


def _version(conn: apsw.Connection, path: Path, objects: list[_SchemaObject]) -> int:
    if not any((each.kind, each.name) == ("table", "meta") for each in objects):
        raise _other_program(path, f"it has the {objects[0].kind} {objects[0].name!r} and no table 'meta'")
    try:
        text = meta.get(conn, "schema_version")
    except apsw.SQLError as error:
        raise _other_program(path, f"its table 'meta' is not ours: {error}") from None
    if not isinstance(text, str) or not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise _other_program(path, f"its schema_version is {str(text)[:40]!r}, which is no number of a schema")
    return int(text)


def _other_program(path: Path, why: str) -> DatabaseRefused:
    return DatabaseRefused(
        path,
        f"is the database of another program, or was changed by one ({why})",
        "Name another file in POSTROOM_DB, or move this one away",
    )


def _check_tables(path: Path, objects: list[_SchemaObject], version: int) -> None:
    missing = _tables(version) - {each.name for each in objects if each.kind == "table"}
    if missing:
        names = ", ".join(sorted(missing))
        raise DatabaseRefused(path, f"lacks tables that its schema {version} has: {names}", KEEP_IT)


@cache
def _tables(version: int) -> frozenset[str]:
    """The names of our tables at that version."""
    names: set[str] = set()
    for number in range(1, version + 1):
        for made, dropped, old, new in _TABLE_CHANGE.findall(migrations().get(number, "")):
            names -= {dropped, old}
            names |= {name for name in (made, new) if name}
    return frozenset(names)


def _check_triggers_and_views(path: Path, objects: list[_SchemaObject]) -> None:
    ours = "\n".join(migrations().values())
    for each in objects:
        body = (each.sql or "").removeprefix("CREATE TRIGGER ")
        is_ours = each.kind == "trigger" and body != "" and body in ours
        if each.kind in ("trigger", "view") and not is_ours:
            effect = ": it could change what is written" if each.kind == "trigger" else ""
            raise DatabaseRefused(
                path,
                f"has the {each.kind} {each.name!r}, which Postroom did not make{effect}",
                f"With everything stopped, remove it (DROP {each.kind.upper()}), and start again",
            )
