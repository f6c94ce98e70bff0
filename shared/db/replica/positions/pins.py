"""One position of one replica: found by its txid, by an instant, or as the latest.

The URL of a replica stays, while each restore of the writer begins a new history (*epoch*) under a prefix of its own.
``lease.json`` at the URL says which prefix is the current one (``shared/db/replica/lease_record.py``). A pin names its
epoch. The URL of a prefix works as well, and so does that of a replica from before there were epochs.

Litestream counts commits by *txid*, sixteen hexadecimal digits. A txid can be restored only if a stored file ends
there: each commit for an hour (``l0-retention``), then one in about thirty seconds. "Now" on a quiet database means the
latest commit.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from shared.core.errors import PermanentError
from shared.core.time import clock
from shared.db.replica import lease_record
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.object_store import ObjectStore
from shared.db.replica.positions.errors import PositionMissing, ReplicaInvalid
from shared.db.replica.positions.litestream import Restorable, ask_store, missing, plan, stored_files
from shared.db.replica.positions.urls import check_url, shown

_SECOND = timedelta(seconds=1)
_SKEW_MS = 60_000  # clocks of two machines differ by less
_EPOCH = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Pin(msgspec.Struct, frozen=True):
    """One position of one replica: two readers with equal pins read equal rows.

    Args:
        url: the replica.
        txid: the commit, sixteen hexadecimal digits.
        timestamp: when it was made, RFC 3339 UTC, to the second. It also tells histories apart: a replica that was
            wiped and begun again counts from one again.
        epoch: the prefix below the URL that holds its history; empty when that lies at the URL itself.
    """

    url: str
    txid: str
    timestamp: str
    epoch: str = ""

    @property
    def source(self) -> str:
        """The URL for Litestream."""
        return lease_record.prefix_url(self.url, self.epoch)

    @property
    def key(self) -> str:
        """The name of its copy in a cache."""
        return hashlib.sha256("\n".join((self.source, self.txid, self.timestamp)).encode()).hexdigest()[:32]

    @property
    def position(self) -> str:
        """``txid@timestamp@epoch``: with the URL, it makes the pin again (:meth:`at`)."""
        return f"{self.txid}@{self.timestamp}" + (f"@{self.epoch}" if self.epoch else "")

    @classmethod
    def at(cls, url: str, position: str) -> Self:
        """The pin with this :attr:`position`."""
        txid, timestamp, epoch = (*position.split("@", 2), "", "")[:3]
        if epoch and not _EPOCH.fullmatch(epoch):
            raise ReplicaInvalid(f"{position!r} is no position; the form is txid@timestamp@epoch, as in Pin.position")
        return cls(url, _parse_txid(txid), timestamp, epoch)


def resolve(
    url: str, *, txid: str | None = None, timestamp: str | datetime | None = None, epoch: str | None = None
) -> Pin:
    """Find the position to read: the latest, that of *txid*, or the last one before *timestamp*.

    Args:
        url: the replica.
        txid: hexadecimal, as Litestream prints it.
        timestamp: ISO 8601; UTC unless it says otherwise. Later than the last commit means the latest; the future is
            refused, because what is read then would be another state once that instant has come.
        epoch: only in this history: the name of its prefix below the URL, or ``meta.epoch`` of its database.

    Raises:
        PositionMissing: the message names the epochs, or the positions, that there are.
        ReplicaInvalid, ReplicaMissing, ReplicaUnreachable, RestoreFailed, LitestreamMissing
    """
    check_url(url)
    if txid is not None and timestamp is not None:
        raise ReplicaInvalid("a position is a txid or a timestamp: leave one of them out")
    at = None if timestamp is None else _parse_timestamp(timestamp)
    asked = None if txid is None else _parse_txid(txid)
    prefixes = _prefixes(url)
    if epoch is not None:
        prefixes = _of_epoch(url, prefixes, epoch)
    if at is not None:
        return _resolve_timestamp(url, prefixes, at)
    newest = prefixes[-1].path
    source = lease_record.prefix_url(url, newest)
    found = _resolve_txid(source, asked) if asked is not None else plan(source)
    if found is None:
        raise missing(url)
    return Pin(url, found.txid, found.timestamp, newest)


def every_position(url: str, epoch: str | None = None) -> list[Pin]:
    """The positions that the replica still has, history by history, each from the oldest to the newest.

    Args:
        epoch: only of this history, as with :func:`resolve`.

    Raises:
        as :func:`resolve`.
    """
    check_url(url)
    prefixes = _prefixes(url)
    if epoch is not None:
        prefixes = _of_epoch(url, prefixes, epoch)
    found = []
    for prefix in prefixes:
        ends: dict[str, str] = {}
        for file in stored_files(lease_record.prefix_url(url, prefix.path)):
            txid = file["max_txid"]
            ends[txid] = min(file["timestamp"], ends.get(txid, file["timestamp"]))  # a merged file is younger
        found += [Pin(url, txid, ends[txid], prefix.path) for txid in sorted(ends)]
    if not found:
        raise missing(url)
    return found


def _prefixes(url: str) -> list[ReplicaPrefix]:
    """The prefixes of all histories; the current one is the last."""

    def full(store: ObjectStore) -> list[ReplicaPrefix]:
        record = lease_record.read(store)
        return lease_record.full_prefixes(store, record) if record else [lease_record.AT_THE_URL]

    prefixes = ask_store(url, full)
    if not prefixes:
        raise missing(url)
    return prefixes


def _of_epoch(url: str, prefixes: list[ReplicaPrefix], epoch: str) -> list[ReplicaPrefix]:
    """The prefixes that *epoch* names: one by its path, or all that continue the same database."""
    found = [prefix for prefix in prefixes if prefix.path == epoch] or [
        prefix for prefix in prefixes if prefix.epoch == epoch
    ]
    if not found or not epoch:
        names = ", ".join(dict.fromkeys(name for prefix in prefixes for name in (prefix.epoch, prefix.path) if name))
        there = f"its epochs, the newest last: {names}" if names else "its only history has no name: leave epoch out"
        raise PositionMissing(f"the replica {shown(url)} has no epoch {epoch!r}; {there}")
    return found


def _resolve_txid(url: str, txid: str) -> Restorable:
    found = plan(url, "-txid", txid)
    if found is not None and found.txid == txid:
        return found
    raise no_such_txid(url, txid)


def no_such_txid(url: str, txid: str) -> PermanentError:
    """Say which positions around *txid* there are."""
    files = stored_files(url)
    if not files:
        return missing(url)
    ends = sorted({file["max_txid"] for file in files})
    oldest = min(files, key=lambda file: (file["max_txid"], file["timestamp"]))
    below = max((end for end in ends if end < txid), default=None)
    above = min((end for end in ends if end > txid), default=None)
    near = " and ".join(end for end in (below, above) if end is not None)
    return PositionMissing(
        f"txid {txid} can't be restored: the replica does not have it, or has merged it into a later one; "
        f"the nearest are {near}; the oldest is {oldest['max_txid']} from {oldest['timestamp']}"
    )


def _resolve_timestamp(url: str, prefixes: list[ReplicaPrefix], at: datetime) -> Pin:
    """The last position before *at*, in the newest history that has one."""
    begun = [prefix for prefix in prefixes if prefix.began_at <= at.timestamp() * 1000] or prefixes[:1]
    for number, prefix in enumerate(reversed(begun), 1):
        try:
            found = _last_before(lease_record.prefix_url(url, prefix.path), at)
            return Pin(url, found.txid, found.timestamp, prefix.path)
        except PositionMissing:
            if number == len(begun):
                raise
    raise missing(url)


def _last_before(url: str, at: datetime) -> Restorable:
    asked = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    found = plan(url, "-timestamp", asked)
    if found is not None:
        return found
    latest = plan(url)  # the program refuses an instant after the last commit, as "now" on a quiet database is
    if latest is None:
        raise missing(url)
    if _parse_timestamp(latest.timestamp) <= at:
        if at.timestamp() * 1000 > clock.machine_ms() + _SKEW_MS:
            raise ReplicaInvalid(
                f"{asked} is in the future: the newest position of the replica is from {latest.timestamp}; name an "
                "earlier instant, or leave it out for the newest"
            )
        return _in_last_second(url, latest, at) if at - _parse_timestamp(latest.timestamp) < _SECOND else latest
    oldest = min(file["timestamp"] for file in stored_files(url))
    raise PositionMissing(f"the replica has nothing from before {asked}: its oldest position is from {oldest}")


def _in_last_second(url: str, latest: Restorable, at: datetime) -> Restorable:
    """The last position before an instant of the second in which *latest* was made.

    A bucket's list tells whole seconds, and the program takes each instant of the last one for later than all. The
    files tell milliseconds.
    """
    newest = [file for file in stored_files(url) if file["timestamp"] == latest.timestamp and not file["level"]]

    def first_later(store: ObjectStore) -> str | None:
        later = (file["min_txid"] for file in newest if _made_at_ms(store, file) > at.timestamp() * 1000)
        return min(later, default=None)

    later = ask_store(url, first_later)
    return latest if later is None else _resolve_txid(url, f"{int(later, 16) - 1:016x}")


def _made_at_ms(store: ObjectStore, file: Mapping[str, Any]) -> int:
    """When the file was made, as its own head says; 0 if it is gone.

    Source: https://github.com/superfly/ltx (the header of a file)
    """
    found = store.get(f"{store.newest_ltx_files}{file['min_txid']}-{file['max_txid']}.ltx")
    return int.from_bytes(found.body[32:40], "big") if found is not None else 0


def _parse_txid(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text) or not int(text, 16):
        raise ReplicaInvalid(f"{text!r} is no txid: write up to sixteen hexadecimal digits, as Litestream prints them")
    return text.lower().zfill(16)


def _parse_timestamp(value: str | datetime) -> datetime:
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # also an instant whose year in UTC is 0 or 10000
        raise ReplicaInvalid(f"{value!r} is no timestamp: write it like 2026-03-01T12:00:00Z") from None
