"""What is in a database, so that two can be compared: of each table the number of rows, and a digest of all of them.

Rows are taken in the order of their keys, whatever the planner would do. What Litestream keeps in the database for
itself is left away, and so is what SQLite computes from the rows.
"""

import hashlib
import marshal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import apsw

from shared.db.engine.connection import rows

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE tbl_name NOT GLOB '_litestream_*' ORDER BY _rowid_"
_TABLES = """
    SELECT name, wr
      FROM pragma_table_list
     WHERE schema = 'main'
       AND type IN ('table', 'shadow')
       AND name != 'sqlite_schema'
       AND name NOT GLOB '_litestream_*'
     ORDER BY name
"""
_AT_ONCE = 500
_WITHOUT_REFERENCES = 2  # of marshal's formats, the one in which equal rows are equal bytes, and nothing else matters


@dataclass(frozen=True, slots=True)
class Table:
    """What is in one table."""

    rows: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """A table whose rows are not the same; None: it is not there."""

    table: str
    here: int | None
    there: int | None


def read(conn: apsw.Connection) -> dict[str, Table]:
    """The tables by name, and the schema. Of one state, if the caller is in a transaction."""
    found = {"sqlite_schema": _digested(conn.execute(_SCHEMA))}
    for name, is_without_rowid in rows(conn, _TABLES):
        found[name] = _read(conn, name, bool(is_without_rowid))
    return found


def differences(here: Mapping[str, Table], there: Mapping[str, Table]) -> list[Difference]:
    """The tables that differ, by name."""
    return [
        Difference(name, _count(here.get(name)), _count(there.get(name)))
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    ]


def _count(table: Table | None) -> int | None:
    return None if table is None else table.rows


def _read(conn: apsw.Connection, table: str, is_without_rowid: bool) -> Table:
    described = rows(conn, "SELECT name, pk FROM pragma_table_info(:table) ORDER BY cid", {"table": table})
    columns = [_quoted(name) for name, _ in described]
    keys = ["_rowid_"]
    if is_without_rowid:
        keys = [_quoted(name) for name, place in sorted(described, key=lambda column: column[1]) if place]
    else:
        columns.insert(0, "_rowid_")
    try:
        return _digested(_select(conn, table, columns, keys))
    except UnicodeDecodeError:  # SQLite keeps as text whatever it is told is text
        return _digested(_select(conn, table, [f"typeof({each}), CAST({each} AS BLOB)" for each in columns], keys))


def _select(
    conn: apsw.Connection, table: str, columns: Sequence[str], keys: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    return conn.execute(f"SELECT {', '.join(columns)} FROM {_quoted(table)} ORDER BY {', '.join(keys)}")  # noqa: S608 - names from the schema, quoted


def _digested(found: Iterator[tuple[Any, ...]]) -> Table:
    digest, count = hashlib.blake2b(digest_size=16), 0
    while some := list(islice(found, _AT_ONCE)):
        digest.update(marshal.dumps(some, _WITHOUT_REFERENCES))
        count += len(some)
    return Table(count, digest.digest())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
