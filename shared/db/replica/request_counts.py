"""Requests to the bucket, and their bytes, counted as S3 bills them."""

import threading
from typing import Literal

import msgspec

RequestKind = Literal["puts", "gets", "lists", "deletes"]


class RequestCounts(msgspec.Struct, frozen=True):
    """Numbers of requests, and the bytes that they carried.

    Attributes:
        puts: all that S3 bills as PUT: each part of a large upload is one, and so are its beginning and its end.
        gets: GET and HEAD.
    """

    puts: int = 0
    gets: int = 0
    lists: int = 0
    deletes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def plus(self, other: "RequestCounts") -> "RequestCounts":
        """Both together."""
        return RequestCounts(*(mine + its for mine, its in zip(self._numbers(), other._numbers(), strict=True)))

    def minus(self, other: "RequestCounts") -> "RequestCounts":
        """What this has more than the other."""
        return RequestCounts(*(mine - its for mine, its in zip(self._numbers(), other._numbers(), strict=True)))

    @property
    def total(self) -> int:
        """All requests."""
        return self.puts + self.gets + self.lists + self.deletes

    def _numbers(self) -> tuple[int, ...]:
        return (self.puts, self.gets, self.lists, self.deletes, self.sent_bytes, self.received_bytes)


NONE = RequestCounts()
OF_A_RESTORE = RequestCounts(gets=3, lists=42)  # of Litestream 0.5.17, counted with a server; more files, more GETs


class RequestCounter:
    """Counts the requests of one client; any thread may add."""

    def __init__(self) -> None:
        self._counts = NONE
        self._lock = threading.Lock()

    def add(self, more: RequestCounts) -> None:
        """Count these too."""
        with self._lock:
            self._counts = self._counts.plus(more)

    def take(self) -> RequestCounts:
        """What was counted since the last call."""
        with self._lock:
            taken, self._counts = self._counts, NONE
        return taken
