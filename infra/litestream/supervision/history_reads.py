"""Reads the database's history, one read at a time, so that at the end no read of ours keeps the log."""

import threading
from collections.abc import Callable
from pathlib import Path

from infra.litestream import local_state
from infra.litestream.restored_files import HistoryFacts, is_missing
from shared.core.errors import PostroomError

_LIMIT_S = 5.0  # a read takes some milliseconds


class HistoryReads:
    """The reads of one supervisor.

    Args:
        read: reads the history in a database.
    """

    def __init__(self, database: Path, read: Callable[[Path], HistoryFacts]) -> None:
        self._database = database
        self._read = read
        self._turn = threading.Lock()  # held while the database is open here

    def read(self) -> HistoryFacts:
        """What the database says of its history; nothing where it is not there, or can't be read."""
        if is_missing(self._database) or not self._turn.acquire(timeout=_LIMIT_S):
            return HistoryFacts(None, 0)
        try:
            return self._read(self._database)
        except PostroomError:
            return HistoryFacts(None, 0)
        finally:
            self._turn.release()

    def mark_good_end(self) -> None:
        """Mark the local state as trusted, if the log is gone; a read that a cancelled task began would keep it."""
        if self._turn.acquire(timeout=_LIMIT_S):
            try:
                local_state.mark_good_end(self._database)
            finally:
                self._turn.release()
