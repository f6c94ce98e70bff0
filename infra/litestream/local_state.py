"""Litestream's local state: the folder beside the database in which it notes what it has sent.

Litestream goes on from it at its next start. After an end in mid-work it may name pages that were never sent. Nor does
Litestream notice when the log (the WAL) began again while it was away: what was at the end of the old log is then
missing, without a word. So the local state is trusted only with a mark, a file in the same folder.

The mark is made when Litestream has ended in good order and the log is gone. (The functions end first, and the last to
close the database removes the log; Litestream then begins with a full copy by itself.) The mark is removed before
Litestream starts.
"""

import shutil
from pathlib import Path

import apsw

from shared.core import durability
from shared.db.engine.connection import open_connection
from shared.db.engine.owner_only import make_folder

_MARK = "ended-well"


def folder(database: Path) -> Path:
    """Where Litestream 0.5 keeps its local state."""
    return database.with_name(f".{database.name}-litestream")


def level_0(database: Path) -> Path:
    """Where Litestream keeps the files that it uploads: one for each upload, named by the first and last commit."""
    return folder(database) / "ltx" / "0"


def newest_txid(database: Path) -> str | None:
    """The newest commit that Litestream took from the database: sixteen hexadecimal digits; None if unknown."""
    try:
        return max((path.stem.partition("-")[2] for path in level_0(database).glob("*.ltx")), default=None)
    except OSError:
        return None


def bytes_after(database: Path, name: str) -> int:
    """The bytes of the commits that Litestream took from the database after the file called *name*."""
    try:
        files = [path for path in level_0(database).iterdir() if path.name > name]
        return sum(path.stat().st_size for path in files)
    except OSError:  # the folder, or a file that Litestream has just removed
        return 0


def remove(database: Path) -> None:
    """Remove it: the prefix that it is about was left, or the database file is another one."""
    shutil.rmtree(folder(database), ignore_errors=True)


def mark_good_end(database: Path) -> None:
    """Litestream has ended in good order: make the mark, if the log is gone."""
    if folder(database).is_dir() and _is_log_gone(database):
        (folder(database) / _MARK).touch()


def is_trusted(database: Path) -> bool:
    """Whether Litestream may go on where it was; true as well where it never was."""
    return not folder(database).exists() or (folder(database) / _MARK).exists()


def remove_mark(database: Path) -> None:
    """Litestream is about to start: from now on its local state is not trusted until it has ended in good order."""
    here = folder(database)
    make_folder(here)
    (here / _MARK).unlink(missing_ok=True)
    durability.sync(here)


def distrust(database: Path) -> None:
    """Another content was written while no Litestream ran: the next one begins with a full copy."""
    if folder(database).exists():
        remove_mark(database)


def _is_log_gone(database: Path) -> bool:
    """Open and close the database; the last process to close it removes the log."""
    if not database.exists():
        return False
    try:
        open_connection(database).close()
    except apsw.Error:
        return False
    return not database.with_name(f"{database.name}-wal").exists()
