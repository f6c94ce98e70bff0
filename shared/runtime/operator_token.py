"""The token for callers that are not Postroom's own user, in a file beside the database that only this user can read.

The first start makes it. ``POSTROOM_API_TOKEN`` takes its place at the API.
"""

import os
import stat
from pathlib import Path

from shared.core import chance
from shared.db.engine import owner_only


def path_of(database: Path) -> Path:
    """The file with the token."""
    return database.with_name(f"{database.name}-api-token")


def read_or_make(database: Path) -> str | None:
    """The token; None where another user could have written or read its file, so that it opens nothing.

    Raises:
        OSError: the folder can't be written.
    """
    path = path_of(database)
    if not os.path.lexists(path):
        _make(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # a link, or a file of another user
        return None
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        facts = os.fstat(handle)
        is_ours = facts.st_uid in (os.geteuid(), 0) and not facts.st_mode & owner_only.UMASK
        return (file.read(1000).strip() or None) if is_ours and stat.S_ISREG(facts.st_mode) else None


def _make(path: Path) -> None:
    """Make the file, whole from its first instant on; the first of two processes wins."""
    owner_only.make_folder(path.parent)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{chance.token_hex(4)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, owner_only.FILE)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{chance.token_urlsafe(32)}\n")
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
