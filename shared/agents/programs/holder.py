"""The outermost process of a contained program, and the socket that keeps it alive.

The other end of the socket is descriptor 3 of the first process inside. When our end closes, for any reason, everything
inside is ended.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence

from shared.agents.programs import priority
from shared.core import chance

_KILL_AFTER_S = 1.0  # the first process ends within milliseconds; one that was stopped does not
_GIVES_WAY_AGAIN_S = (0.1, 1.0)  # at random between them: many programs may start at once


class Holder:
    """One such process. *hear* gets each line from the first process, and None when the socket is closed."""

    def __init__(self, pid: int, line: socket.socket, hear: Callable[[bytes | None], None]) -> None:
        self.pid = pid
        self.code = 0  # of the outermost process, once it is gone
        self._line = line
        self._said = b""
        self._hear = hear
        self._is_reaped = False
        self._reaped = asyncio.Event()
        self._watch()
        self._give_way()

    @classmethod
    def start(
        cls,
        words: Sequence[str],
        environment: Mapping[str, str],
        standard: tuple[int, int, int],
        hear: Callable[[bytes | None], None],
        *,
        further: Sequence[int] = (),
    ) -> "Holder":
        """Start it in a session of its own, with *standard* as its descriptors 0 to 2, and *further* from 4 on.

        The child borrows our memory until it becomes the program (posix_spawn): ``asyncio.create_subprocess_exec``
        under uvloop copies the page tables of this process, which takes sixteen times as long.

        Raises:
            OSError: it can't be started.
        """
        line, far = socket.socketpair()
        with far:
            try:
                pid = _spawn(words, environment, [*standard, far.fileno(), *further])
            except BaseException:
                line.close()
                raise
        return cls(pid, line, hear)

    @property
    def is_open(self) -> bool:
        """Whether our end is open."""
        return self._line.fileno() >= 0

    def say(self, line: bytes) -> None:
        """Send the first process a line; nothing happens if it is gone."""
        with contextlib.suppress(OSError):
            self._line.send(line)

    def kill(self) -> None:
        """Begin to end everything inside; ``hear`` gets None after that."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Close our end: everything inside ends."""
        if not self.is_open:
            return
        self._read()  # the end of the process may be known before its last words are read
        asyncio.get_running_loop().remove_reader(self._line)
        self._line.close()
        if self._said:
            self._hear(self._said)
            self._said = b""
        self._hear(None)

    async def gone(self) -> None:
        """Return when everything inside is gone."""
        loop = asyncio.get_running_loop()
        last = loop.call_later(_KILL_AFTER_S, self._kill_outermost)
        try:
            await self._reaped.wait()
        finally:
            if self._is_reaped:
                last.cancel()

    def _kill_outermost(self) -> None:
        if not self._is_reaped:  # another process may have its number by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._line.setblocking(False)
        loop.add_reader(self._line, self._listen)
        fd = os.pidfd_open(self.pid)

        def ended() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self._is_reaped = True
            self.hang_up()
            self._reaped.set()

        loop.add_reader(fd, ended)

    def _give_way(self) -> None:
        if not self._is_reaped and not priority.give_way(self.pid):
            soonest_s, latest_s = _GIVES_WAY_AGAIN_S
            again_in_s = soonest_s + chance.fraction() * (latest_s - soonest_s)
            asyncio.get_running_loop().call_later(again_in_s, self._give_way)

    def _listen(self) -> None:
        is_over = self._read()
        while self.is_open and b"\n" in self._said:
            first, _, self._said = self._said.partition(b"\n")
            self._hear(first)
        if is_over:
            self.hang_up()

    def _read(self) -> bool:
        """Read what has arrived; whether that was the last."""
        try:
            while said := self._line.recv(4096):
                self._said += said
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


def _spawn(words: Sequence[str], environment: Mapping[str, str], fds: list[int]) -> int:
    """Start *words* with *fds* as the descriptors from 0 on, and no others.

    A descriptor that a child would inherit is closed in the child. There may be one although we open none: a socket
    that a service manager passed to this process has no close-on-exec flag.
    """
    others = [int(each) for each in os.listdir("/proc/self/fd") if int(each) >= len(fds)]  # noqa: PTH208 - 10 times faster
    return os.posix_spawn(
        words[0],
        list(words),
        environment,
        file_actions=[
            *((os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)),
            *((os.POSIX_SPAWN_CLOSE, fd) for fd in others),
        ],
        setsid=True,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
    )
