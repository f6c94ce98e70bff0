"""Reads what a chore is about to change, before the chore has the write lock and keeps all writers waiting.

A change of a row reads the row's pages and a page of each of its indexes. An index of random values has a page of its
own for nearly each row. Where memory does not have those pages, a batch would wait for the disk hundreds of times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import apsw

from shared.db.engine.connection import rows


@dataclass(frozen=True)
class ReadAhead:
    """What to read of a *table*; names of ours, never from outside.

    Args:
        long: columns whose values may fill pages of their own.
        unique: the columns of each unique index whose values do not grow with the rows' ids.
    """

    table: str
    long: Sequence[str] = ()
    unique: Sequence[Sequence[str]] = ()

    def __call__(self, conn: apsw.Connection, *, after_id: int, limit: int) -> None:
        """Read up to *limit* rows after *after_id*, in the order of the ids."""
        rows(conn, self.sql, (after_id, limit))

    @cached_property
    def sql(self) -> str:
        columns = [*self.long, *(name for names in self.unique for name in names)]
        read = ["next.id", *(f"ifnull(length(next.{name}), 0)" for name in self.long)]
        joins = ""
        for number, names in enumerate(self.unique):
            read.append(f"ifnull(index{number}.id, 0)")
            same = " AND ".join(f"index{number}.{name} = next.{name}" for name in names)
            joins += f" LEFT JOIN {self.table} AS index{number} ON {same}"
        return (
            f"SELECT total({' + '.join(read)})"  # noqa: S608
            f" FROM (SELECT id, {', '.join(columns)} FROM {self.table} WHERE id > ? ORDER BY id LIMIT ?) AS next{joins}"
        )
