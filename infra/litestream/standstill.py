"""Decides when a Litestream stands still although the bucket is well. Then only another Litestream helps.

Litestream 0.5.17 sends one file after another, and its requests have no time limit. So a request that is never
answered (of a connection that was dropped, say) stops it for minutes or for ever, although the bucket is well again.

A Litestream that is slow is not to be killed: the next one would begin with a full copy. So the bucket must be well
(it answers us, and our lease was renewed meanwhile), nothing new may have arrived from Litestream at several looks, and
there must have been time to send what waits. After each restart it has twice the time, until it has caught up once.
"""

from dataclasses import dataclass, replace

from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.object_store import ObjectStore

_LEAST_LOOKS = 3
_MOST_DOUBLINGS = 8
_SLOWEST_BYTES_PER_S = 1_000_000  # of a network that is to be used
_FILES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class LookPace:
    """How often the supervisor looks at Litestream.

    Args:
        every_s, behind_s: between two looks, and while Litestream is behind.
        limit_s: how long Litestream may take to answer.
        still_s: how long nothing may arrive while Litestream has something to send.
    """

    every_s: float = 10.0
    behind_s: float = 2.0
    limit_s: float = 8.0
    still_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Upload:
    """How far Litestream has come, at one look at which it was behind.

    Args:
        at_s, renewed_at_s: of the look, and of the newest successful renewal; by one clock.
        newest: the newest file in the bucket; empty where there is none.
        waiting: the bytes that are still to be sent.
    """

    at_s: float
    renewed_at_s: float
    newest: str
    waiting: int


@dataclass(frozen=True, slots=True)
class StandstillWatch:
    """What was seen of one Litestream after another. Each look returns the next watch.

    Args:
        first: the first of the looks at which nothing new had arrived, if any.
        looks: how many there were.
        restarts: since Litestream last caught up.
    """

    still_s: float
    first: Upload | None = None
    looks: int = 0
    restarts: int = 0

    def caught_up(self) -> "StandstillWatch":
        """Everything is in the bucket."""
        return StandstillWatch(self.still_s)

    def begin_again(self) -> "StandstillWatch":
        """Another Litestream runs, or the bucket does not answer us either: what was seen counts no more."""
        return replace(self, first=None, looks=0)

    def restarted(self) -> "StandstillWatch":
        """Another Litestream begins because this one stood still."""
        return replace(self.begin_again(), restarts=self.restarts + 1)

    def behind(self, now: Upload) -> "StandstillWatch":
        """The bucket answers us, and Litestream is behind."""
        if self.first is None or self.first.newest != now.newest:
            return replace(self, first=now, looks=1)
        return replace(self, looks=self.looks + 1)

    def stands_still(self, now: Upload) -> bool:
        """Whether Litestream will not come on any more, by the looks up to *now*."""
        if self.first is None or self.looks < _LEAST_LOOKS or now.renewed_at_s <= self.first.at_s:
            return False
        # What came to wait since the first look does not count: else every commit would put off the decision.
        patience_s = self.still_s + self.first.waiting / _SLOWEST_BYTES_PER_S
        return now.at_s - self.first.at_s >= patience_s * 2.0 ** min(self.restarts, _MOST_DOUBLINGS)


def newest_file(store: ObjectStore, prefix: ReplicaPrefix, known: str) -> str:
    """The newest of Litestream's files in the prefix, in order behind *known*, which is older or empty.

    Raises:
        StoreUnreachable, StoreRefused
    """
    found = store.names(prefix.key(store.newest_ltx_files), after=known, limit=_FILES_AT_ONCE)
    return found[-1] if found else known
