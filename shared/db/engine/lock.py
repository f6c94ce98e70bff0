"""One worker of a kind per database: a lock file, which the kernel frees when its holder dies in whatever way."""

import asyncio
import fcntl
import os
from pathlib import Path

_POLL_S = 0.02


class WorkerLock:
    """Held by the one process of a kind that works on the database: whoever gets it knows that the others are gone.

    A child that is given its descriptor goes on holding it when this process has released it.
    """

    def __init__(self, db: Path, kind: str) -> None:
        self._path = db.with_name(f"{db.name}-{kind}")
        self._fd: int | None = None

    @property
    def is_held(self) -> bool:
        return self._fd is not None

    def try_acquire(self) -> bool:
        """Take it, if nobody has it."""
        if self._fd is not None:
            return True
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def fileno(self) -> int:
        """Of the lock that is held: a child that inherits it holds it too, until it ends."""
        if self._fd is None:
            raise ValueError("the lock is not held")
        return self._fd

    async def acquire(self) -> None:
        """Wait until it is ours: while code is reloaded, the old process first ends its work."""
        while not self.try_acquire():  # noqa: ASYNC110 - the holder is another process, nothing here can be told
            await asyncio.sleep(_POLL_S)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
