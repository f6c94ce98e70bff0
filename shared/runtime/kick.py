"""Kicks: a local datagram that says "there is work". Correctness never needs it, because a tick finds the work too.

A listener binds ``<run_dir>/<name>.sock``; a kick is one byte, sent without waiting. A full queue means that a wake-up
is already on its way. A missing listener means that there is nothing to wake. Neither is an error.

Signs of life: the runner touches a file for each function beside the sockets, while the function's event loop turns. A
process that hangs or is stopped keeps its sockets, so only the age of this file tells, and since when.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from shared.core.errors import ConfigInvalid
from shared.core.time import clock
from shared.core.time.durations import time_span
from shared.db.engine.owner_only import FILE, make_folder

_PATH_LIMIT = 107  # bytes of a Unix socket's path, from sys/un.h
SILENT_MS = 30_000  # a machine that is busy delays a sign by some seconds
_SIGN_EVERY_MS = 5000
_JOIN_LIMIT_S = 0.5  # of the few seconds that a stop may take
_LONGEST_NAME = len("dispatch.4194304")  # with the largest process id of Linux


def _checked(run_dir: Path) -> Path:
    """The folder, if the paths of its sockets are short enough.

    Raises:
        ConfigInvalid: they are longer than a Unix socket allows.
    """
    room = _PATH_LIMIT - _LONGEST_NAME - 1
    if len(os.fsencode(run_dir)) > room:
        raise ConfigInvalid(
            f"{run_dir} is too long for Unix sockets, which allow {room} bytes: set POSTROOM_RUN_DIR to a shorter path"
        )
    return run_dir


class Kicker:
    """Sends kicks, through one socket for the life of a process."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = _checked(run_dir)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def kick(self, name: str) -> None:
        """Wake the listener called *name*. Takes about 3 microseconds, never blocks and never fails."""
        with contextlib.suppress(OSError):
            self._socket.sendto(b"k", f"{self._run_dir}/{name}.sock")

    def has_listener(self, name: str) -> bool:
        """Whether there is a listener called *name*; does not wake it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            return probe.connect_ex(f"{self._run_dir}/{name}.sock") == 0

    def is_heard(self, name: str) -> bool:
        """Whether there is a listener called *name*, and its process gives signs of life."""
        return self.has_listener(name) and not silent_ms(self._run_dir, name)

    def close(self) -> None:
        self._socket.close()


class Listener:
    """The receiving end, for ``loop.add_reader``. A newer listener of the same name takes over from an older one."""

    def __init__(self, run_dir: Path, name: str) -> None:
        path = _checked(run_dir) / f"{name}.sock"
        make_folder(run_dir)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        fresh = path.with_name(f"{name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        self._socket.bind(str(fresh))
        fresh.chmod(0o600)
        fresh.replace(path)  # atomic: there is a listener at every instant
        self._path = path
        self._inode = path.stat().st_ino

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> None:
        """Read all kicks that have arrived; they mean the same."""
        try:
            while True:
                self._socket.recv(16)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Stop listening, and leave a successor's socket alone."""
        self._socket.close()
        if self._path.exists() and self._path.stat().st_ino == self._inode:
            self._path.unlink(missing_ok=True)


def _touch(file: Path, now_ms: int) -> None:
    with contextlib.suppress(OSError):  # a full disk or a lost folder must not end the process
        make_folder(file.parent)
        file.touch(mode=FILE)
        os.utime(file, ns=(now_ms * 1_000_000,) * 2)


class SignsOfLife:
    """Those of the process of one function; *run*: the folder of sockets."""

    def __init__(self, run: Path, name: str, touch: Callable[[Path, int], None] = _touch) -> None:
        self._file = _sign(run, name)
        self._touch = touch
        self._given_ms = 0
        self._touching: threading.Thread | None = None

    def give(self) -> None:
        """Have a thread touch the file, unless that was done just now: a disk that stands still holds no caller.

        The file gets the instant of this call, so it grows old when the caller hangs, and when the disk does.
        """
        now_ms = clock.machine_ms()
        if 0 <= now_ms - self._given_ms < _SIGN_EVERY_MS or (self._touching and self._touching.is_alive()):
            return
        self._given_ms = now_ms
        touching = threading.Thread(target=self._touch, args=(self._file, now_ms), daemon=True)
        with contextlib.suppress(RuntimeError):  # the machine has no room for a thread just now
            touching.start()
            self._touching = touching

    def join(self) -> None:
        """Wait for the sign that is being given, if the disk lets it."""
        if self._touching is not None:
            self._touching.join(_JOIN_LIMIT_S)

    def end(self) -> None:
        """The process ends as it was asked to: nobody waits for its next sign."""
        self.join()
        with contextlib.suppress(OSError):
            self._file.unlink()


def silent_ms(run: Path, name: str) -> int:
    """For how long the function has given no sign of life; 0 where none is due yet, or no runner gives any."""
    try:
        last_ms = _sign(run, name).stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0
    silent = abs(clock.machine_ms() - last_ms)  # a sign of the future was given before the clock was set back
    return silent if silent >= SILENT_MS else 0


def silent(run: Path) -> dict[str, int]:
    """For how long each function is silent that has ever given a sign of life in this folder, and now gives none."""
    names = sorted(each.stem for each in run.glob("*.alive"))
    return {name: for_ms for name in names if (for_ms := silent_ms(run, name))}


def silence(for_ms: int) -> str:
    """The clause that tells of it. Pure."""
    return f"it has given no sign of life for {time_span(for_ms)}"


def _sign(run: Path, name: str) -> Path:
    return run / f"{name}.alive"
