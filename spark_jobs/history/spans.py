"""Two positions of a replica, an earlier and a later one, as people name them: an instant, or a txid."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from spark_jobs import replicas
from spark_jobs.replicas import Pin, ReplicaInvalid
from spark_jobs.streaming.histories import Copy

_TXID = re.compile(r"[0-9a-fA-F]{1,16}")
_POSITION = re.compile(r"[0-9a-f]{16}@\d{4}-\d\d-\d\dT")


@dataclass(frozen=True, slots=True)
class AskedPosition:
    """What a person asked for; all None: the newest position.

    Args:
        epoch: only in this history.
    """

    txid: str | None = None
    timestamp: str | None = None
    epoch: str | None = None

    @classmethod
    def parse(cls, text: str | None, epoch: str | None = None) -> Self:
        """From ``2026-03-01T12:00:00Z``, a txid, or ``txid@epoch``; None: the newest.

        Args:
            epoch: where *text* names none.
        """
        if text is None:
            return cls(epoch=epoch)
        first, _, named = text.strip().partition("@")
        if _TXID.fullmatch(first):
            return cls(txid=first, epoch=named or epoch)
        return cls(timestamp=first, epoch=named or epoch)


@dataclass(frozen=True, slots=True)
class Span:
    """From one position to a later one, both restored on this host."""

    old: Copy
    new: Copy
    cache_dir: str | None = None

    def paths(self) -> tuple[Path, Path]:
        """Both restored files, restored again if they were evicted meanwhile."""
        old, new = (replicas.ensure_local(copy.pin, self.cache_dir) for copy in (self.old, self.new))
        return old, new

    @property
    def crosses_epochs(self) -> bool:
        """The database was restored in between, so ids may have been given twice."""
        return self.old.epoch != self.new.epoch

    @classmethod
    def of(cls, url: str, begin: str, end: str | None, *, epoch: str | None = None, cache_dir: str | None) -> Self:
        """Pin and restore both positions.

        Args:
            begin, end: as :meth:`AskedPosition.parse` takes them, or a whole ``Pin.position``.
            epoch: of both, where they name none.

        Raises:
            ReplicaInvalid: they are in the wrong order, or the same.
            as :func:`spark_jobs.replicas.restore_pinned`.
        """
        if end is not None and begin.strip() == end.strip():
            raise ReplicaInvalid(
                f"both positions are {begin}, so nothing can lie between them: name an earlier one to begin with, "
                "or a later one to end with"
            )
        replicas.check_url(url)
        new_pin, new_path = _pinned(url, end, epoch, cache_dir)
        old_pin, old_path = _pinned(url, begin, epoch, cache_dir)
        check_order(old_pin, new_pin)
        return cls(Copy.of(old_pin, old_path), Copy.of(new_pin, new_path), cache_dir)


def check_order(old: Pin, new: Pin) -> None:
    """Refuse a span that runs backwards.

    Raises:
        ReplicaInvalid
    """
    if old.epoch == new.epoch:
        is_backwards = int(old.txid, 16) > int(new.txid, 16)
    else:
        is_backwards = instant_of(old) > instant_of(new)
    if is_backwards:
        raise ReplicaInvalid(
            f"the span runs backwards: it begins at {told(old)} and ends at {told(new)}: exchange the two positions"
        )


def instant_of(pin: Pin) -> datetime:
    """When the position was made."""
    at = datetime.fromisoformat(pin.timestamp)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def named(pin: Pin) -> str:
    """The position as an argument of a command: ``txid@epoch``."""
    return pin.txid + (f"@{pin.epoch}" if pin.epoch else "")


def told(pin: Pin) -> str:
    """The position for people."""
    return f"txid {named(pin)} of {pin.timestamp}"


def _pinned(url: str, text: str | None, epoch: str | None, cache_dir: str | None) -> tuple[Pin, Path]:
    if text is not None and _POSITION.match(text):
        pin = Pin.at(url, text)
        return pin, replicas.ensure_local(pin, cache_dir)
    asked = AskedPosition.parse(text, epoch)
    return replicas.restore_pinned(
        url, txid=asked.txid, timestamp=asked.timestamp, epoch=asked.epoch, cache_dir=cache_dir
    )
