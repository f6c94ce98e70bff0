"""Kicks: a local datagram that says "there is work". Never needed for correctness, a tick finds the work too.

A listener binds ``<run_dir>/<name>.sock``; a kick is one byte sent without waiting. A full queue means that a
wake-up is already on its way; a missing listener means that nobody is there to wake: both are fine.
"""

import contextlib
import os
import socket
from pathlib import Path

from shared.core.errors import ConfigInvalid

_PATH_LIMIT = 107  # bytes, from sys/un.h
_LONGEST_NAME = len("dispatch.4194304")  # with the largest process id of Linux


def _checked(run_dir: Path) -> Path:
    """The folder, if its sockets' paths fit.

    Raises:
        ConfigInvalid: they are longer than a Unix socket allows.
    """
    room = _PATH_LIMIT - _LONGEST_NAME - 1
    if len(os.fsencode(run_dir)) > room:
        raise ConfigInvalid(
            f"{run_dir} is too long for Unix sockets in it ({room} bytes): set POSTROOM_RUN_DIR to a shorter folder"
        )
    return run_dir


class Kicker:
    """Sends kicks, through one socket for the life of a process."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = _checked(run_dir)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def kick(self, name: str) -> None:
        """Wake whoever listens as *name*; about 3 microseconds, never blocks, never fails: a tick is behind it."""
        with contextlib.suppress(OSError):
            self._socket.sendto(b"k", f"{self._run_dir}/{name}.sock")

    def has_listener(self, name: str) -> bool:
        """Whether somebody listens as *name*; nobody is woken."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            return probe.connect_ex(f"{self._run_dir}/{name}.sock") == 0

    def close(self) -> None:
        self._socket.close()


class Listener:
    """The receiving end, for ``loop.add_reader``: a newer listener of the same name takes over from an older one."""

    def __init__(self, run_dir: Path, name: str) -> None:
        path = _checked(run_dir) / f"{name}.sock"
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        fresh = path.with_name(f"{name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        self._socket.bind(str(fresh))
        fresh.chmod(0o600)
        fresh.replace(path)  # no instant without a listener
        self._path = path
        self._inode = path.stat().st_ino

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> None:
        """Take all waiting kicks; they mean the same."""
        try:
            while True:
                self._socket.recv(16)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Stop listening; leaves a successor's socket alone."""
        self._socket.close()
        if self._path.exists() and self._path.stat().st_ino == self._inode:
            self._path.unlink(missing_ok=True)
