"""What turns took from models until yesterday, summed once an hour: a month has very many turns, and pages ask often.

A turn that began a day ago adds nothing more to its rows. Its later rows are summed with each call.
"""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_SETTLED_MS = 24 * 60 * 60 * 1000
_HOUR_MS = 60 * 60 * 1000
_FOR_EVER_MS = 2**62


class SettledUsage:
    """One for a process; its callers may be threads."""

    def __init__(self) -> None:
        self._until_ms = 0
        self._kept: dict[tuple[Any, ...], Any] = {}

    def parts(self, key: tuple[Any, ...], since_ms: int, now_ms: int, read: Callable[[int, int], T]) -> list[T]:
        """What *read* tells of the settled part of the time since *since_ms* and of the rest: their sum is of all.

        Args:
            key: what is read, beside the instants.
            read: called with an instant and the one before which it ends.
        """
        until_ms = (now_ms - _SETTLED_MS) // _HOUR_MS * _HOUR_MS
        if until_ms <= since_ms:
            return [read(since_ms, _FOR_EVER_MS)]
        if until_ms != self._until_ms:
            self._until_ms, self._kept = until_ms, {}
        kept, name = self._kept, (*key, since_ms)
        if name not in kept:
            kept[name] = read(since_ms, until_ms)
        return [kept[name], read(until_ms, _FOR_EVER_MS)]
