"""Pages of a list that several tables give. A cursor is an id in each of them.

An instant is no cursor: rows of one millisecond may lie on both sides of a page's end.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import TypeVar

import apsw
from typing_extensions import TypedDict

from shared.db.views import books


class Paged(TypedDict):
    """A row of such a list. *at*: its instant, ms UTC. *cursor*: of the page that comes after this row."""

    at: int
    cursor: str


Row = TypeVar("Row", bound=Paged)


def pattern(tables: Sequence[str]) -> str:
    """What a cursor of a list of *tables* looks like."""
    return rf"^\d{{1,18}}(-\d{{1,18}}){{{len(tables) - 1}}}$"


def begin(conn: apsw.Connection, tables: Sequence[str], *, cursor: str | None, before_ms: int) -> dict[str, int]:
    """By table, the id below which the rows of the page lie: from *cursor*, or without one from *before_ms*."""
    if cursor is not None:
        return dict(zip(tables, map(int, cursor.split("-")), strict=True))
    return {table: books.first_since(conn, table, before_ms) for table in tables}


def merged(below: Mapping[str, int], found: Mapping[str, Iterable[tuple[int, Row]]], *, limit: int) -> list[Row]:
    """A page, newest first, each row with its cursor.

    Args:
        below: where the page begins.
        found: by table, id and row, the highest id first.
    """
    place, page = dict(below), []
    tables = [[(table, id_, row) for id_, row in of_table] for table, of_table in found.items()]
    for table, id_, row in islice(merge(*tables, key=lambda each: -each[2]["at"]), limit):
        place[table] = id_
        row["cursor"] = "-".join(map(str, place.values()))
        page.append(row)
    return page
