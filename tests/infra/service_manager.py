"""Stands in for systemd, as far as a unit with ``WatchdogSec=`` sees it: a socket for signs, and who must give them."""

import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

HOLDS_OFF = "WATCHDOG_USEC=0"


class NotifySocket:
    """The socket; *limit_s* is the unit's ``WatchdogSec=``."""

    def __init__(self, path: Path, limit_s: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(path))
        self.limit_us = round(limit_s * 1_000_000)
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(self.limit_us)}
        self.sign = f"WATCHDOG_USEC={self.limit_us}\nWATCHDOG=1"

    def receive(self, limit_s: float = 60.0) -> tuple[int, str]:
        """The next datagram, and the process that sent it.

        Raises:
            TimeoutError
        """
        self._socket.settimeout(limit_s)
        text, extra, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
        pid, _, _ = struct.unpack("3i", extra[0][2])
        return pid, text.decode()

    def waiting(self) -> list[str]:
        """What has come and was not received."""
        found = []
        self._socket.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self._socket.recv(4096).decode())
        return found

    def close(self) -> None:
        self._socket.close()


def as_main_process(words: Sequence[object]) -> list[object]:
    """The command line by which a process is the one that systemd asks for signs."""
    return ["/bin/sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", *words]


def asked(notify: NotifySocket) -> dict[str, str]:
    """The environment of this process, if systemd asked it."""
    return {**notify.environment, "WATCHDOG_PID": str(os.getpid())}
