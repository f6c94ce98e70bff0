"""Digests of a database, so that two can be compared: of each table the number of rows, and a digest of all of them.

Rows are read in the order of their keys, whatever the planner prefers. Litestream's own tables are left out, and so is
what SQLite computes from the rows.
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
_COLUMNS = "SELECT name, pk FROM pragma_table_info(:table) ORDER BY cid"
_AT_ONCE = 500
_WITHOUT_REFERENCES = 2  # the marshal format in which equal rows are equal bytes, whatever shares an object


@dataclass(frozen=True, slots=True)
class TableDigest:
    """The rows of one table."""

    rows: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class TableDifference:
    """A table whose rows differ, with their numbers; None: the table is not there."""

    table: str
    here: int | None
    there: int | None


def read(conn: apsw.Connection) -> dict[str, TableDigest]:
    """The digests of all tables by name, and of the schema; of one state, if the caller is in a transaction."""
    found = {"sqlite_schema": _digest(conn.execute(_SCHEMA))}
    for name, is_without_rowid in rows(conn, _TABLES):
        found[name] = _read_table(conn, name, bool(is_without_rowid))
    return found


def differences(here: Mapping[str, TableDigest], there: Mapping[str, TableDigest]) -> list[TableDifference]:
    """The tables that differ, by name."""
    return [
        TableDifference(name, _count(here.get(name)), _count(there.get(name)))
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    ]


def _count(table: TableDigest | None) -> int | None:
    return None if table is None else table.rows


def _read_table(conn: apsw.Connection, table: str, is_without_rowid: bool) -> TableDigest:
    described = rows(conn, _COLUMNS, {"table": table})
    columns = [_quoted(name) for name, _ in described]
    keys = ["_rowid_"]
    if is_without_rowid:
        keys = [_quoted(name) for name, place in sorted(described, key=lambda column: column[1]) if place]
    else:
        columns.insert(0, "_rowid_")
    try:
        return _digest(_select(conn, table, columns, keys))
    except UnicodeDecodeError:  # SQLite stores as text whatever it is given as text
        return _digest(_select(conn, table, [f"typeof({each}), CAST({each} AS BLOB)" for each in columns], keys))


def _select(
    conn: apsw.Connection, table: str, columns: Sequence[str], keys: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    return conn.execute(f"SELECT {', '.join(columns)} FROM {_quoted(table)} ORDER BY {', '.join(keys)}")  # noqa: S608 - names from the schema, quoted


def _digest(found: Iterator[tuple[Any, ...]]) -> TableDigest:
    digest, count = hashlib.blake2b(digest_size=16), 0
    while some := list(islice(found, _AT_ONCE)):
        digest.update(marshal.dumps(some, _WITHOUT_REFERENCES))
        count += len(some)
    return TableDigest(count, digest.digest())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
