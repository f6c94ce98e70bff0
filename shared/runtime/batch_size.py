"""How much a chore does in one transaction: as much as takes a few milliseconds here and now.

A transaction keeps all other writers waiting. How long a row takes depends on the disk, on what is in memory, and on
the other processes of the machine, so no fixed number is right everywhere. The number of rows follows from the batches
before. A batch also stops early, between two steps, when its rows take longer than those before.
"""

from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from shared.core.time import clock
from shared.db.engine.read_ahead import ReadAhead

_LONGEST_S = 0.0025  # of one transaction, with its commit: a quarter of what a writer may wait for a chore
_LONGEST_WORK_S = 0.00125  # before the commit, which takes about as long: it writes the pages
_FIRST = 25
_STEPS = 5
_MOST = 250  # rows looked at in one transaction, at most: 1 ms of the write lock on a fast machine

Batch = Callable[[apsw.Connection, Any, int], tuple[int, Any]]
"""The work of one transaction from a place on (None: the start), on up to so many rows: the number of rows, the next
place (None: done)."""


class BatchSize:
    """The size of the next batch of one chore; *most* where the machine is fast."""

    __slots__ = ("_most", "rows")

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows = min(most, _FIRST)

    def begin_again(self) -> None:
        """Begin small: since the last batch, memory may have lost the pages, and another process may be at work."""
        self.rows = min(self.rows, _FIRST)

    def learn(self, took_s: float, *, rows: int, is_full: bool) -> None:
        """A batch that looked at so many *rows* took so long.

        Args:
            is_full: there was as much to do as it might do, so that a larger batch would have taken longer.
        """
        if took_s > _LONGEST_S:
            self.rows = max(1, int(rows * _LONGEST_S / took_s))
        elif is_full:
            self.rows = min(self._most, rows * 2) if took_s < _LONGEST_S / 2 else rows


class Steps:
    """A batch of up to *rows* rows as work for ``Writer.run``, in steps; ``rows`` says afterwards how many it took."""

    __slots__ = ("_batch", "_clock_s", "_most", "_place", "rows")

    def __init__(
        self, batch: Batch, place: Any, rows: int, *, clock_s: Callable[[], float] = clock.monotonic_s
    ) -> None:
        self._batch = batch
        self._place = place
        self._most = rows
        self._clock_s = clock_s
        self.rows = 0

    def __call__(self, conn: apsw.Connection) -> tuple[int, Any]:
        """Take steps until all is done or the time is up: the number of rows, and the next place (None: done)."""
        end_s = self._clock_s() + _LONGEST_WORK_S
        step = max(1, self._most // _STEPS)
        count, place = 0, self._place
        while True:
            limit = min(step, self._most - self.rows)
            found, place = self._batch(conn, place, limit)
            count += found
            self.rows += limit
            if place is None or self.rows >= self._most or self._clock_s() >= end_s:
                return count, place


Read = Callable[[apsw.Connection, Any, int], None]
"""With the arguments of a ``Batch``, on a connection that only reads."""


class Chore(msgspec.Struct, frozen=True):
    """One kind of housekeeping, done in batches of at most *most* rows.

    *read_ahead*: reads what the next batch will change, before the batch has the write lock.
    """

    batch: Batch
    most: int = _MOST
    read_ahead: Read | None = None


def repeated(work: Callable[..., int], *, most: int = _MOST) -> Chore:
    """A chore that repeats its work until it finds less than a whole batch."""

    def batch(conn: apsw.Connection, _: Any, limit: int) -> tuple[int, Any]:
        count = work(conn, limit=limit)
        return count, True if count == limit else None

    return Chore(batch, most)


def walked(work: Callable[..., tuple[int, int]], *, most: int = _MOST, read_ahead: ReadAhead | None = None) -> Chore:
    """A chore that walks a table from its oldest row, until there is nothing more to do."""

    def batch(conn: apsw.Connection, after: Any, limit: int) -> tuple[int, Any]:
        count, last = work(conn, after_id=after or 0, limit=limit)
        return count, last or None

    def read(conn: apsw.Connection, after: Any, limit: int) -> None:
        if read_ahead is not None:
            read_ahead(conn, after_id=after or 0, limit=limit)

    return Chore(batch, most, read if read_ahead is not None else None)
