"""What Litestream keeps beside the database: its notes of what it has sent.

It goes on from them when it is started again. After an end in mid-work they may speak of pages that were never sent, so
they are believed only with a mark, which stands in the same folder and goes with it: made when Litestream ended in good
order, taken away before it starts.
"""

import shutil
from pathlib import Path

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
    """Without its notes, Litestream begins with a whole copy."""
    shutil.rmtree(folder(database), ignore_errors=True)


def vouch(database: Path) -> None:
    """Litestream ended in good order."""
    if folder(database).is_dir():
        (folder(database) / _MARK).touch()


def open_again(database: Path) -> None:
    """Litestream is about to start: from its notes if they are vouched for, else from nothing."""
    mark = folder(database) / _MARK
    if mark.exists():
        mark.unlink()
    else:
        forget(database)
