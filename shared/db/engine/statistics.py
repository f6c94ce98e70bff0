"""The planner's statistics, table by table, each at a bounded cost.

``PRAGMA optimize`` as a whole is not bounded. In a table whose indexes are all partial it counts the rows one by one,
whatever ``analysis_limit`` says, and holds the write lock meanwhile (a million messages: 0.3 s). So only small tables
are analysed. The plans that matter are the same with statistics and without; tests hold that.
"""

import re

import apsw

from shared.db.engine.connection import rows, scalar

_WHAT_IT_WOULD_DO = 0x10003  # all tables, and only say which
_SAID = re.compile(r'ANALYZE "main"\."(\w+)"')
_ROWS_LOOKED_AT = 400  # of each index
_LARGE = 8_000  # rows: 1 to 2.5 ms to count


def stale(conn: apsw.Connection) -> list[str]:
    """The tables that SQLite would analyse, without the large ones."""
    said = (_SAID.fullmatch(sentence) for (sentence,) in rows(conn, f"PRAGMA optimize({_WHAT_IT_WOULD_DO})"))
    return [found[1] for found in said if found and not _is_large(conn, found[1])]


def _is_large(conn: apsw.Connection, table: str) -> bool:
    try:
        span = scalar(conn, f'SELECT (SELECT max(rowid) FROM "{table}") - (SELECT min(rowid) FROM "{table}")')
    except apsw.SQLError:
        return False  # WITHOUT ROWID: it has an index of all its rows, and is never counted
    return bool((span or 0) >= _LARGE)


def analyse(conn: apsw.Connection, table: str) -> None:
    """Sample the beginning of each index of the table."""
    rows(conn, f"PRAGMA analysis_limit = {_ROWS_LOOKED_AT}")
    rows(conn, f'ANALYZE main."{table}"')
