"""Signs of life: the runner touches a file for each function, in the folder of sockets, while its event loop turns.

A process that hangs or is stopped keeps its sockets, so only the age of this file tells, and since when.
"""

import os
from pathlib import Path

from shared.core.time import clock
from shared.core.time.durations import time_span
from shared.db.engine.owner_only import FILE, make_folder

SILENT_MS = 30_000  # a machine that is busy delays a sign by some seconds
_EVERY_MS = 5000


class SignsOfLife:
    """Those of the process of one function; *run*: the folder of sockets."""

    def __init__(self, run: Path, name: str) -> None:
        self._file = _file(run, name)
        self._given_ms = 0

    def give(self) -> None:
        """Touch the file, unless that was done just now. A full disk or a lost folder must not end the process."""
        now_ms = clock.machine_ms()
        if 0 <= now_ms - self._given_ms < _EVERY_MS:
            return
        self._given_ms = now_ms
        try:
            make_folder(self._file.parent)
            self._file.touch(mode=FILE)
            os.utime(self._file, ns=(now_ms * 1_000_000,) * 2)
        except OSError:
            return


def silent_ms(run: Path, name: str) -> int:
    """For how long the function has given no sign of life; 0 where none is due yet, or no runner gives any."""
    try:
        last_ms = _file(run, name).stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0
    silent = clock.machine_ms() - last_ms
    return silent if silent >= SILENT_MS else 0


def sentence(silent_ms: int) -> str:
    """For how long the function has been silent. Pure."""
    return f"it has given no sign of life for {time_span(silent_ms)}"


def _file(run: Path, name: str) -> Path:
    return run / f"{name}.alive"
