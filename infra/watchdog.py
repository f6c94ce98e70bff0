"""systemd's watchdog: where the unit has ``WatchdogSec=``, systemd kills a process whose event loop stands still.

A sign is a datagram, so no disk holds it up. Until the first one the watchdog holds off: a start may take long, by
a migration say, and a standby waits.

Source: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html and sd_watchdog_enabled.html there.
"""

import asyncio
import contextlib
import faulthandler
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping

from shared.core.time import clock


class Watchdog:
    """That of this process; none where systemd asks nobody, or another process, for signs.

    Args:
        environment: of the process; a program that it starts inherits it, and is not the one that is asked.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        limit_us, self._address = environment.get("WATCHDOG_USEC", ""), environment.get("NOTIFY_SOCKET", "")
        is_ours = environment.get("WATCHDOG_PID") == str(os.getpid())
        self._limit_us = int(limit_us) if is_ours and self._address and limit_us.isdecimal() else 0
        self._every_s = self._limit_us / 4_000_000  # one may come late, and one be lost
        self._given_s: float | None = None
        if self._limit_us:
            if self._address.startswith("@"):
                self._address = f"\0{self._address[1:]}"
            # It kills by SIGABRT: the log then says where each thread stood.
            faulthandler.enable(file=sys.__stderr__ or sys.stderr)

    def hold_off(self) -> None:
        """Ask systemd to wait for the first sign, however long that takes."""
        self._send("WATCHDOG_USEC=0")

    def give(self) -> None:
        """Give a sign, unless that was done just now. Never blocks and never fails."""
        now_s = clock.monotonic_s()
        if self._given_s is None or now_s - self._given_s >= self._every_s:
            self._given_s = now_s
            self._send(f"WATCHDOG_USEC={self._limit_us}\nWATCHDOG=1")

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Give signs meanwhile, for as long as the event loop turns."""
        giving = asyncio.create_task(self._give_for_ever())
        try:
            yield
        finally:
            giving.cancel()

    async def _give_for_ever(self) -> None:
        while self._limit_us:
            self.give()
            await asyncio.sleep(self._every_s)

    def _send(self, text: str) -> None:
        if self._limit_us:
            kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sock:
                sock.sendto(text.encode(), self._address)
