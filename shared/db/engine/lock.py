"""A lock for one worker of a kind per database: a lock file that the kernel frees when its holder dies."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.02


class WorkerLock:
    """Held by the one process of a kind that works on the database; a new holder knows that the last one is gone.

    A child that inherits the descriptor goes on holding the lock when this process has released it.
    """

    def __init__(self, db: Path, kind: str) -> None:
        self._path = db.with_name(f"{db.name}-{kind}")
        self._fd: int | None = None

    @property
    def is_held(self) -> bool:
        return self._fd is not None

    def try_acquire(self) -> bool:
        """Take the lock, if it is free."""
        if self._fd is not None:
            return True
        fd = self._open()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    @contextmanager
    def waited(self) -> Iterator[None]:
        """Hold the lock meanwhile; wait for it first, with this thread."""
        fd = self._open()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        """The descriptor of the held lock: a child that inherits it holds the lock too, until it ends."""
        if self._fd is None:
            raise ValueError("the lock is not held")
        return self._fd

    async def acquire(self) -> None:
        """Wait for the lock: while code is reloaded, the old process first ends its work."""
        while not self.try_acquire():  # noqa: ASYNC110 - the holder is another process, which sets no event here
            await asyncio.sleep(_POLL_S)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
