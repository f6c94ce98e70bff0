"""What Litestream keeps beside the database: its notes of what it has sent.

It goes on from them when it is started again, and after an end in mid-work they may speak of pages that were never
sent. Nor does it notice when the log (the WAL) began anew while it was away: what was written at the log's end before
that is missing then, without a word. So the notes are believed only with a mark, which stands in the same folder and
goes with it. It is made when Litestream has ended in good order and the log is gone (the functions end first, and the
last to close the database removes it): Litestream then begins with a whole copy by itself. It is taken away before
Litestream starts.
"""

import os
import shutil
from pathlib import Path

import apsw

from shared.db.engine.connection import open_connection

_MARK = "ended-well"


def folder(database: Path) -> Path:
    """Where Litestream 0.5 keeps them."""
    return database.with_name(f".{database.name}-litestream")


def position(database: Path) -> str | None:
    """The newest commit that was taken from the database: sixteen hexadecimal digits; None where there are no notes."""
    try:
        return max(
            (path.stem.partition("-")[2] for path in (folder(database) / "ltx" / "0").glob("*.ltx")), default=None
        )
    except OSError:
        return None


def forget(database: Path) -> None:
    """Of a place that is left, or of a file that is."""
    shutil.rmtree(folder(database), ignore_errors=True)


def vouch(database: Path) -> None:
    """Litestream ended in good order."""
    if folder(database).is_dir() and _is_log_gone(database):
        (folder(database) / _MARK).touch()


def are_good(database: Path) -> bool:
    """Whether Litestream may go on where it was; so it may where it never was."""
    return not folder(database).exists() or (folder(database) / _MARK).exists()


def open_again(database: Path) -> None:
    """Litestream is about to start: whatever happens from now on, the notes are not good until they are vouched for."""
    here = folder(database)
    here.mkdir(mode=0o700, exist_ok=True)
    (here / _MARK).unlink(missing_ok=True)
    handle = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_log_gone(database: Path) -> bool:
    """Close the database, as the last one if we are that."""
    if not database.exists():
        return False
    try:
        open_connection(database).close()
    except apsw.Error:
        return False
    return not database.with_name(f"{database.name}-wal").exists()
