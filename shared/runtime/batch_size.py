"""How many rows a chore works on in one transaction: as many as it does in a few milliseconds, measured each time.

A transaction keeps all other writers waiting. How long a row takes depends on the disk, on what is in memory, and on
the other processes of the machine, so no fixed number is right everywhere.
"""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

import apsw

T = TypeVar("T")

_LONGEST_S = 0.0025  # of one transaction, with its commit: a quarter of what a writer may wait for a chore
_FIRST = 25


class BatchSize:
    """The size of the next batch of one chore; *most* where the machine is fast."""

    __slots__ = ("_most", "rows")

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows = min(most, _FIRST)

    def begin_again(self) -> None:
        """Begin small: since the last batch, memory may have lost the pages, and another process may be at work."""
        self.rows = min(self.rows, _FIRST)

    def learn(self, took_s: float, *, is_full: bool) -> None:
        """A batch of this size took so long.

        Args:
            is_full: there was as much to do as it might do, so that a larger batch would have taken longer.
        """
        if took_s > _LONGEST_S:
            self.rows = max(1, int(self.rows * _LONGEST_S / took_s))
        elif is_full and took_s < _LONGEST_S / 2:
            self.rows = min(self._most, self.rows * 2)


class Timed(Generic[T]):
    """Work for ``Writer.run`` that notes when it got the write lock."""

    def __init__(self, work: Callable[[apsw.Connection], T]) -> None:
        self._work = work
        self._begun_s: float | None = None

    def __call__(self, conn: apsw.Connection) -> T:
        self._begun_s = time.perf_counter()
        return self._work(conn)

    def took_s(self) -> float:
        """The seconds since then; 0 if it did not get the lock. Call it when the transaction is over."""
        return 0.0 if self._begun_s is None else time.perf_counter() - self._begun_s
