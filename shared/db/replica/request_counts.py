"""Requests of our own client to the bucket, and their bytes, counted as S3 bills them."""

import threading

import msgspec


class RequestCounts(msgspec.Struct, frozen=True):
    """Numbers of requests, and the bytes that they carried.

    Attributes:
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
        both = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return RequestCounts(*(mine + its for mine, its in both))


class RequestCounter:
    """Counts the requests of one client; any thread may add."""

    def __init__(self) -> None:
        self.counts = RequestCounts()  # so far
        self._lock = threading.Lock()

    def add(self, more: RequestCounts) -> None:
        """Count these too."""
        with self._lock:
            self.counts = self.counts.plus(more)
