"""Decides about warm copies: which prefix to follow, and whether a follower stands still. Pure, with a literal clock.

A follower is ``litestream restore -f`` of one prefix. It knows nothing of ``lease.json``, so it stays on a prefix that
was left. At a hole it waits for ever. Both look like a replica in which nothing happens.
"""

from dataclasses import dataclass
from enum import Enum, auto

from shared.db.replica.lease_record import ReplicaPrefix

STILL_S = 30.0
_LISTINGS = 4  # the follower's and ours, and as many again on a bad day


class CopyStep(Enum):
    """What to do about the copies."""

    WAIT = auto()
    BEGIN = auto()  # another follower, beside the copy that there is
    SWAP = auto()  # the new copy is whole: it takes the place of the other
    DROP = auto()  # the new copy will not be needed, or its follower has ended


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """One copy and its follower.

    Args:
        prefix: that it follows.
        txid: the position of the copy; None until it is whole.
        has_ended: its follower has.
        stands_still: the bucket has newer commits, and the follower does not come on.
    """

    prefix: str
    txid: str | None
    has_ended: bool = False
    stands_still: bool = False


def next_copy_step(wanted: ReplicaPrefix | None, kept: CopyFacts | None, coming: CopyFacts | None) -> CopyStep:
    """What to do, given the prefix with the newest state, the copy that is kept and the one that is being made."""
    if coming is not None:
        if coming.has_ended or coming.stands_still or wanted is None or coming.prefix != wanted.path:
            return CopyStep.DROP
        return CopyStep.WAIT if coming.txid is None else CopyStep.SWAP
    if wanted is None:
        return CopyStep.WAIT
    if kept is None or kept.prefix != wanted.path or kept.has_ended or kept.stands_still:
        return CopyStep.BEGIN
    return CopyStep.WAIT


@dataclass(frozen=True, slots=True)
class FollowerProgress:
    """How far a follower has come. Each look returns the next progress.

    Args:
        txid: its position, sixteen hexadecimal digits; None until its copy is whole.
        newest: the newest position in the bucket.
        moved_s: when its position last changed, or it last had everything.
        level_s: when it last had everything; None if it never had.
        seen_s: when *newest* was listed.
        listing_s: how long the slowest listing took. The follower lists the bucket too, before each step.
    """

    txid: str | None = None
    newest: str = ""
    moved_s: float = 0.0
    level_s: float | None = None
    seen_s: float = 0.0
    listing_s: float = 0.0

    def saw(self, txid: str | None, newest: str, now_s: float, *, listing_s: float = 0.0) -> "FollowerProgress":
        """The progress after a look at *now_s*.

        A busy host commits between the listing and the look, so a follower that is well is hardly ever level with the
        newest listing. It was level when the one before was made, if it has all of that now.
        """
        is_level = txid is not None and newest <= txid
        was_level = txid is not None and self.newest != "" and self.newest <= txid
        level_s = now_s if is_level else self.seen_s if was_level else self.level_s
        has_moved = txid != self.txid or is_level
        moved_s = now_s if has_moved else self.moved_s
        return FollowerProgress(txid, newest, moved_s, level_s, now_s, max(self.listing_s, listing_s))

    @property
    def patience_s(self) -> float:
        """What a slow bucket adds to every limit of time of this follower."""
        return _LISTINGS * self.listing_s

    def stands_still(self, now_s: float, still_s: float = STILL_S) -> bool:
        """Whether the bucket has newer commits, and the follower has not come on for *still_s* and its patience."""
        return self.txid is not None and self.newest > self.txid and now_s - self.moved_s >= still_s + self.patience_s

    @property
    def commits_behind(self) -> int:
        """How many commits of the bucket it lacks."""
        return max(0, int(self.newest or "0", 16) - int(self.txid or "0", 16))
