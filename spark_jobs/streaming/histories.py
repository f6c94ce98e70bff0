"""What a stream asks a restored copy: its epoch, its rows, and where two histories part."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from spark_jobs import replicas
from spark_jobs.copies import describe, open_both, open_copy, quoted
from spark_jobs.replicas import Pin, PositionMissing, ReplicaMissing


@dataclass(frozen=True, slots=True)
class Copy:
    """One position of the replica, restored on this host.

    Args:
        epoch: ``meta.epoch`` of the database; empty where it has none.
    """

    pin: Pin
    path: Path
    epoch: str

    @classmethod
    def of(cls, pin: Pin, path: Path) -> Self:
        found = _ask(path, "SELECT value FROM meta WHERE key = 'epoch'")
        return cls(pin, path, str(found[0][0]) if found else "")

    @classmethod
    def newest(cls, url: str, cache_dir: str | None, epoch: str | None = None) -> Self:
        """The newest position of the replica, or of one of its epochs."""
        return cls.of(*replicas.restore_pinned(url, epoch=epoch, cache_dir=cache_dir))

    @classmethod
    def at(cls, url: str, position: str, cache_dir: str | None) -> Self | None:
        """The copy at *position*; None if the replica has it no more."""
        pin = Pin.at(url, position)
        try:
            return cls.of(pin, replicas.ensure_local(pin, cache_dir))
        except (PositionMissing, ReplicaMissing):
            return None

    def ends(self, table: str) -> tuple[int, int] | None:
        """The ids of the oldest and the newest row; None if there are no rows."""
        name = quoted(table)
        query = f"SELECT (SELECT min(id) FROM {name}), (SELECT max(id) FROM {name})"  # noqa: S608 - quoted
        oldest, newest = _ask(self.path, query)[0]
        return None if newest is None else (int(oldest), int(newest))

    def row_after(self, table: str, row: int, count: int) -> int | None:
        """The id of the last of the *count* rows after *row*; None if there are none."""
        rows = f"SELECT id FROM {quoted(table)} WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - quoted
        found = _ask(self.path, f"SELECT max(id) FROM ({rows})", (row, count))[0][0]  # noqa: S608 - a query of ours
        return None if found is None else int(found)

    def count(self, table: str, after: int, until: int) -> int:
        """How many rows have an id above *after*, and not above *until*."""
        query = f"SELECT count(*) FROM {quoted(table)} WHERE id > ? AND id <= ?"  # noqa: S608 - quoted
        return int(_ask(self.path, query, (after, until))[0][0])

    def left_out(self, table: str, after: int, until: int) -> int:
        """How many ids above *after*, and not above *until*, a restore left out: no rows ever had them."""
        if table != "events":
            return 0
        query = (
            "SELECT ifnull(sum(id - 1 - max(json_extract(data, '$.after'), ?)), 0) FROM events"
            " WHERE type = 'epoch_began' AND id > ? AND id <= ?"
        )
        return int(_ask(self.path, query, (after, after, until))[0][0])


def last_common_row(old: Copy, new: Copy, table: str, until: int) -> int | None:
    """The id of the last row, not above *until*, that both histories have with the same content.

    Histories part once and both only grow, so all rows below it are common too. None if they share no row.
    """
    columns = [field.name for field in describe(old.path, table).fields]
    later = {field.name for field in describe(new.path, table).fields}
    same = " AND ".join(f"n.{quoted(name)} IS o.{quoted(name)}" for name in columns if name in later)
    name = quoted(table)
    query = (
        f"SELECT n.id FROM main.{name} AS n JOIN old.{name} AS o ON {same}"  # noqa: S608 - quoted
        " WHERE n.id <= ? ORDER BY n.id DESC LIMIT 1"
    )
    with open_both(old.path, new.path) as cursor:
        cursor.execute(query, (until,))
        found = cursor.fetchall()
    return int(found[0][0]) if found else None


def _ask(path: Path, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with open_copy(path) as cursor:
        cursor.execute(query, tuple(values))
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
