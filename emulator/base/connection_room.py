"""Which connections a server of the emulator has, and which one is closed when they become too many."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

_REPORT_EVERY_S = 10.0

C = TypeVar("C")


class ConnectionRoom(Generic[C]):
    """The connections of one server. One is *silent* while its client owes the rest of a request.

    Where they become too many, the one that is silent for the longest is closed; one with a request under way never is.
    Any thread may call.

    Args:
        limit: how many there may be.
        close: closes a connection, without waiting for its client.
        report: gets the numbers of what was closed since its last call, every ten seconds at most.
    """

    def __init__(self, limit: int, close: Callable[[C], None], report: Callable[[Counter[str]], None]) -> None:
        self.limit = limit
        self._close = close
        self._report = report
        self._lock = threading.RLock()  # closing may end a connection at once
        self._open: set[C] = set()
        self._first: dict[C, None] = {}  # silent, and the first to go; the longest silent first
        self._silent: dict[C, None] = {}
        self._closed: Counter[str] = Counter()
        self._reported_s = float("-inf")

    def enter(self, new: C) -> bool:
        """Add a connection, which is silent; False if there is no room, because every other has a request under way."""
        with self._lock:
            if len(self._open) >= self.limit:
                oldest = next(itertools.chain(self._first, self._silent), None)
                if oldest is None:
                    self.count("with every connection in use, refused")
                    return False
                self.leave(oldest)
                self._close(oldest)
                self.count("silent, closed for others")
            self._open.add(new)
            self._silent[new] = None
            return True

    def listen(self, to: C, *, goes_first: bool = False) -> None:
        """Its client may send another request, and is silent until then; nothing if the connection has ended."""
        with self._lock:
            if to in self._open:
                (self._first if goes_first else self._silent)[to] = None

    def hear(self, of: C) -> None:
        """Its request is complete."""
        with self._lock:
            self._first.pop(of, None)
            self._silent.pop(of, None)

    def leave(self, old: C) -> None:
        """The connection has ended."""
        with self._lock:
            self._open.discard(old)
            self.hear(old)

    def count(self, what: str) -> None:
        """Report what was closed, or keep it for the next report."""
        with self._lock:
            self._closed[what] += 1
            now_s = time.monotonic()
            if now_s - self._reported_s >= _REPORT_EVERY_S:
                self._report(self._closed)
                self._closed, self._reported_s = Counter(), now_s
