"""The rows of a table that two databases do not have in common, read side by side in the order of their keys."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from shared.db.engine.connection import rows

Row = tuple[tuple[Any, ...], tuple[Any, ...]]  # its key, and all its columns

_KEY = "SELECT name FROM pragma_table_info(:table) WHERE pk > 0 ORDER BY pk"
_HAS_NO_ROWID = "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = :table"


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """How the rows of a table *here* differ from those *there*.

    Attributes:
        here, there: the numbers of rows.
        lost: rows that are only here.
        changed: rows with the same key and another content.
        extra: rows that are only there.
        first_lost: the lowest key of those that are lost, as text; None if none is.
    """

    table: str
    here: int
    there: int
    lost: int
    changed: int
    extra: int
    first_lost: str | None


def compare(here: apsw.Connection, there: apsw.Connection, table: str) -> RowDifferences:
    """Compare one table; a table that is missing has no rows."""
    counts = {"here": 0, "there": 0, "lost": 0, "changed": 0, "extra": 0}
    first_lost = None
    mine, its = _read(here, table), _read(there, table)
    one, other = next(mine, None), next(its, None)
    while one is not None or other is not None:
        is_mine = other is None or (one is not None and one[0] <= other[0])
        is_its = one is None or (other is not None and other[0] <= one[0])
        counts["here"] += is_mine
        counts["there"] += is_its
        if is_mine and is_its:
            counts["changed"] += one != other
        elif is_mine and one is not None:
            counts["lost"] += 1
            first_lost = first_lost or ", ".join(map(str, one[0]))
        else:
            counts["extra"] += 1
        one, other = next(mine, None) if is_mine else one, next(its, None) if is_its else other
    return RowDifferences(table, **counts, first_lost=first_lost)


def _read(conn: apsw.Connection, table: str) -> Iterator[Row]:
    """The rows in the order of their keys: SQLite compares text as bytes, which is Python's order too."""
    described = rows(conn, _HAS_NO_ROWID, {"table": table})
    if not described:
        return
    keys = [_quoted(name) for (name,) in rows(conn, _KEY, {"table": table})] if described[0][0] else ["_rowid_"]
    names = ", ".join(keys)
    for row in conn.execute(f"SELECT {names}, * FROM {_quoted(table)} ORDER BY {names}"):  # noqa: S608 - from the schema
        yield row[: len(keys)], row[len(keys) :]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
