"""The log of the emulator in its state folder: bounded, and readable by this user only."""

import contextlib
import io
import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path

LARGEST_BYTES = 5_000_000
OLDER_FILES = 3


class LogFile:
    """Appends lines to *path*. A full file is renamed (``emulator.log.1``), and the oldest is deleted.

    A line that can't be written, as on a full disk, is lost; the emulator continues.
    """

    def __init__(self, path: Path, *, largest_bytes: int = LARGEST_BYTES) -> None:
        self._handler = _PrivateHandler(path, maxBytes=largest_bytes, backupCount=OLDER_FILES, delay=True)

    def write(self, line: str) -> None:
        self._handler.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        with contextlib.suppress(OSError):  # lines that a full disk did not take
            self._handler.close()


class _PrivateHandler(RotatingFileHandler):
    def _open(self) -> io.TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)  # an earlier release may have made it readable
        return io.TextIOWrapper(os.fdopen(descriptor, "ab"), encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:
        """A log that can't be written must not stop the emulator, nor fill the terminal."""
