"""Work of a transaction that counts only if it comes to its end before its caller gives up."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import apsw

from shared.core.errors import PostroomError

T = TypeVar("T")


class GivenUp(PostroomError):
    """The caller no longer waits: the transaction keeps nothing of this work."""


class TimelyWork(Generic[T]):
    """Give it to ``Writer.run`` in place of *work*. The writer's thread ends it, the caller's thread gives it up."""

    def __init__(self, work: Callable[[apsw.Connection], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_done = False
        self._is_given_up = False

    def __call__(self, conn: apsw.Connection) -> T:
        """Do the work.

        Raises:
            GivenUp: the caller gave up; the savepoint or transaction rolls back.
        """
        self._check()
        found = self._work(conn)
        with self._lock:
            self._check()
            self._is_done = True
        return found

    def give_up(self) -> bool:
        """Keep nothing of the work. False: it is done already, and only its commit is under way or over."""
        with self._lock:
            self._is_given_up = not self._is_done
            return self._is_given_up

    def _check(self) -> None:
        if self._is_given_up:
            raise GivenUp("the caller no longer waits for this transaction")
