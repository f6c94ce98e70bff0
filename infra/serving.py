"""Tells the functions of a host when they may open the database: a lock that ``infra.standby`` holds from then on.

It is a lock and not a file that is there: the kernel drops it with its holder, so nothing is left over after a crash.
"""

import fcntl
import os
import time
from pathlib import Path

from shared.db.engine.lock import WorkerLock
from shared.db.engine.owner_only import make_folder

_KIND = "serving"
_POLL_S = 0.02


def serving_lock(database: Path) -> WorkerLock:
    """The lock; its holder says that the file is the newest state, and that the lease is this host's."""
    return WorkerLock(database, _KIND)


def is_served(database: Path) -> bool:
    """Whether the functions of this host may open the database."""
    handle = os.open(database.with_name(f"{database.name}-{_KIND}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: functions that ask at once do not see each other
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def wait_until_served(database: Path) -> None:
    """Return when the functions may open the database."""
    make_folder(database.parent)
    while not is_served(database):
        time.sleep(_POLL_S)
