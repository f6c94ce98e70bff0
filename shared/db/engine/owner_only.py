"""Files and folders for their owner alone: they hold what people wrote. The umask can't widen them.

SQLite gives the log (``-wal``) and its index (``-shm``) the rights of the database file, so only that file has to be
made here, before SQLite makes it.
"""

import contextlib
import os
import stat
import threading
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
UMASK = 0o077  # of programs that make files for us

# On the close of any descriptor of a file, a process loses all its SQLite locks on that file. So no other thread may
# open a file that is being made here.
_making = threading.Lock()


def make_folder(path: Path) -> None:
    """Make the folder and the parents that are missing. Folders that are there keep their rights."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(mode=FOLDER, exist_ok=True)


def make_file(path: Path) -> None:
    """Make the file, empty, unless it is there. Where that fails, the next to open it says why."""
    real = path.resolve()  # a link may point to a file that is still to be made
    with _making, contextlib.suppress(OSError):
        os.close(os.open(real, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))


def narrow(database: Path) -> None:
    """Take the rights of other users from a database of an earlier release, and from what lies beside it.

    Files of another user stay as they are: their rights are not ours to change.
    """
    for suffix in ("", "-wal", "-shm", ".files"):  # the last is ``Settings.files``
        path = database.with_name(database.name + suffix)
        with contextlib.suppress(FileNotFoundError, PermissionError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & UMASK:
                path.chmod(mode & ~UMASK)


def replace_text(path: Path, text: str) -> None:
    """Replace the content of a file in one step: a reader finds the old text or the new one.

    Raises:
        OSError: the file, which it names, has its old content.
    """
    fresh = path.with_name(f"{path.name}.tmp")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE)
    os.fchmod(handle, FILE)  # an earlier release may have left one behind
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
    except OSError as error:  # of a descriptor: it names no file
        raise OSError(error.errno, error.strerror, str(path)) from None
    fresh.replace(path)
