"""Moves the write-ahead log into the database beside the writers, for the sweep."""

from pathlib import Path

import apsw

from shared.core import logs
from shared.db.engine import checkpoints
from shared.db.engine.connection import HeldTime, open_connection, writers_held

log = logs.get()


class WriteAheadLog:
    """Moves what pruning wrote from the log into the database, beside the writers, where no Litestream runs.

    Otherwise the commit that makes the log too long would move 40 MB, and every writer would wait for it. Where a long
    reader keeps the log from being moved, the sweep waits, before every writer has to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._conn: apsw.Connection | None = None
        self.begins_again = False  # the next commit waits for the disk
        self.held = HeldTime()

    def relieve(self) -> bool:
        """Move the log into the database. Whether more work should wait until others have read it."""
        self.held.reset()
        try:
            if self._conn is None:
                self._conn = open_connection(self._path)
            checkpoints.checkpoint_if_long(self._conn)
            if checkpoints.is_nearly_moved(self._conn):
                with writers_held(self._conn, held=self.held):
                    checkpoints.finish(self._conn)
            self.begins_again = checkpoints.begins_again(self._conn)
            return checkpoints.is_strained(self._conn)
        except apsw.BusyError:  # a commit was being published at that moment; the next look finds the log's length
            return False
        except (apsw.Error, OSError):
            log.exception("sweep.checkpoint_failed")
            return False

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
