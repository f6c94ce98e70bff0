"""Carries what changed in a database since its upgrade into a copy from before it.

Three files have it all: the copy, the copy migrated anew, and the database as it is now. What differs between the last
two has happened since the upgrade; it is done to the copy too, row by row, in the columns that the copy has. All other
rows of the copy stay as they were. So the state of each message and answer is that of now: what was answered is not
answered again, and what came in waits where it waited.

What the earlier schema can't say is said as that release would have: see ``_OTHERWISE`` and ``_CLOSED``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from shared.core.errors import WrongState
from shared.db.engine import copies
from shared.db.engine.connection import rows, savepoint, scalar

Row = dict[str, Any]

_YEAR_9999 = 253370764800000  # a paused response, before migration 4


class _Words(NamedTuple):
    """Words that an earlier schema refuses, and those that it has for them.

    Args:
        value: the refused one; None: any.
    """

    table: str
    column: str
    value: str | None
    instead: Mapping[str, Any]


_OTHERWISE = (
    _Words("messages", "failure", None, {"failure": "error"}),
    _Words("messages", "misfire", "skip", {"misfire": "coalesce"}),
    _Words("responses", "failure", None, {"failure": "error"}),
    _Words("responses", "misfire", "skip", {"misfire": "coalesce"}),
    _Words("responses", "status", "paused", {"status": "pending", "deliver_after": _YEAR_9999}),
    _Words("responses", "status", "deleted", {"status": "dead", "last_error": "deleted by hand"}),
)
# An earlier schema has one active session in each place; those that migrations 7 and 48 added beside it are closed.
_CLOSED = ("private_to", "series_id")
_RENAMED = {"given_id": "message_id"}  # by migration 5
# Of `meta`, not what tells of the upgrade, and not what a migration notes: it does so again in the next upgrade.
_OF_THE_ROWS = (
    "c.key NOT IN ('schema_version', 'upgrade_began_with') AND (m.key IS NULL OR c.key IN (SELECT key FROM main.meta))"
)


class Carried(NamedTuple):
    """What was done to one table of the copy."""

    table: str
    new: int
    changed: int
    gone: int


class _Shape(NamedTuple):
    """How the rows of a table are read from now.

    Args:
        columns: of the copy.
        values: the expression over the row ``c`` of now, for each.
        key: the columns that name a row.
        compared: the columns of now that were asked for.
    """

    table: str
    columns: Sequence[str]
    values: Sequence[str]
    key: Sequence[str]
    compared: Sequence[str]


def carry(copy: Path, migrated: Path, now: Path) -> list[Carried]:
    """Do to *copy* what happened between *migrated* and *now*; nobody else may have the three files open.

    Raises:
        WrongState: a row can't be carried; *copy* is of no use then.
    """
    with closing(apsw.Connection(str(copy))) as conn:
        conn.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)  # what they would do is among the rows
        conn.execute("ATTACH ? AS migrated", (str(migrated),))
        conn.execute("ATTACH ? AS now", (str(now),))
        there = copies.counts(conn, "now")
        with savepoint(conn):
            found = [_carry_table(conn, _shape(conn, table)) for table in copies.counts(conn) if table in there]
            conn.execute("DELETE FROM main.meta WHERE key = 'upgrade_began_with'")
            _carry_counters(conn)
        return [each for each in found if any(each[1:])]


def left_out(copy: Path, now: Path) -> Mapping[str, int]:
    """The rows of tables that the schema of *copy* has not."""
    with closing(apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)) as conn:
        known = copies.counts(conn)
    with closing(apsw.Connection(str(now), flags=apsw.SQLITE_OPEN_READONLY)) as conn:
        return {name: count for name, count in copies.counts(conn).items() if count and name not in known}


def _shape(conn: apsw.Connection, table: str) -> _Shape:
    info = rows(conn, f'PRAGMA main.table_xinfo("{table}")')
    ((has_no_rowid,),) = rows(conn, "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", (table,))
    now = {name for _, name, *_ in rows(conn, f'PRAGMA now.table_xinfo("{table}")')}
    columns, values, key = [], [], []
    for _, name, _, is_filled, default, place, hidden in info:
        source = name if name in now else _RENAMED.get(name)
        if hidden or source is None or source not in now:
            continue
        columns.append(name)
        values.append(f'ifnull(c."{source}", {default})' if is_filled and default is not None else f'c."{source}"')
        if place:
            key.append((place, name))
    if table == "sessions":
        known = {name for _, name, *_ in info}
        apart = " OR ".join(f"c.{each} IS NOT NULL" for each in _CLOSED if each in now - known)
        if apart:
            values[columns.index("status")] = f"iif({apart}, 'closed', c.status)"
    if not has_no_rowid and not any(place and kind == "INTEGER" for _, _, kind, _, _, place, _ in info):
        columns.append("rowid")  # it tells the order in which the rows came
        values.append("c.rowid")
        now = now | {"rowid"}
        key = key or [(1, "rowid")]
    compared = [_RENAMED.get(name, name) if name not in now else name for name in columns]
    return _Shape(table, columns, values, [name for _, name in sorted(key)], compared)


def _carry_table(conn: apsw.Connection, shape: _Shape) -> Carried:
    same = " AND ".join(f'm."{name}" = c."{name}"' for name in shape.key)
    keys = ", ".join(f'm."{name}"' for name in shape.key)
    ours = "true" if shape.table != "meta" else _OF_THE_ROWS
    first = shape.key[0]
    gone = rows(
        conn,
        f'SELECT {keys} FROM migrated."{shape.table}" m LEFT JOIN now."{shape.table}" c ON {same}'
        f' WHERE c."{first}" IS NULL',
    )
    before, after = (", ".join(f'{each}."{name}"' for name in shape.compared) for each in ("m", "c"))
    found = rows(
        conn,
        f'SELECT m."{first}" IS NULL, {", ".join(shape.values)} FROM now."{shape.table}" c'
        f' LEFT JOIN migrated."{shape.table}" m ON {same}'
        f' WHERE {ours} AND (m."{first}" IS NULL OR ({after}) IS NOT ({before}))',
    )
    carried = [dict(zip(shape.columns, values, strict=True)) for _, *values in found]
    delete = f'DELETE FROM main."{shape.table}" WHERE ' + " AND ".join(f'"{name}" = ?' for name in shape.key)
    for key in [*gone, *([row[name] for name in shape.key] for row in carried)]:
        conn.execute(delete, tuple(key))
    for row in carried:
        _insert(conn, shape, row)
    new = sum(is_new for is_new, *_ in found)
    return Carried(shape.table, new, len(found) - new, len(gone))


def _insert(conn: apsw.Connection, shape: _Shape, row: Row) -> None:
    names, places = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    statement = f'INSERT INTO main."{shape.table}" ({names}) VALUES ({places})'
    reason = ""
    for attempt in _attempts(shape.table, row):
        try:
            conn.execute(statement, tuple(attempt.values()))
        except apsw.ConstraintError as error:
            reason = str(error)
        else:
            return
    which = ", ".join(f"{name} {row[name]}" for name in shape.key)
    raise WrongState(f"the row {which} of {shape.table} can't be stored in the earlier schema: {reason}")


def _attempts(table: str, row: Row) -> Iterator[Row]:
    """The row, and then with one word after the other replaced."""
    yield row
    said = dict(row)
    for words in _OTHERWISE:
        now = said.get(words.column)
        if words.table == table and now is not None and words.value in (None, now):
            said |= words.instead
            yield said


def _carry_counters(conn: apsw.Connection) -> None:
    """Those of AUTOINCREMENT: an id that was given out since is not given out again."""
    counters = "SELECT 1 FROM {}.sqlite_schema WHERE name = 'sqlite_sequence'"
    if scalar(conn, counters.format("main")) and scalar(conn, counters.format("now")):
        conn.execute(
            "UPDATE main.sqlite_sequence AS ours SET seq = max(ours.seq, theirs.seq)"
            "  FROM now.sqlite_sequence theirs WHERE theirs.name = ours.name"
        )
