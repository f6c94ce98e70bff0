"""What a standby has seen of the lease, and whether it may take it. Pure: the clock comes from the caller.

The age of a lease is told by watching: a record that stays the same for as long as its lease lasts was not renewed. The
holder counts from before its write, and the standby from after it saw it, each by its own clock. So neither the two
clocks nor that of the store need agree, and no second is lost to stores that tell times in whole seconds.
"""

from dataclasses import dataclass
from enum import Enum, auto

from infra.litestream.lease_owner import LeaseOwner
from shared.db.replica.lease_record import LeaseRecord
from shared.db.replica.stored_objects import ReplicaObject

_MARGIN_S = 0.1  # clocks of two machines differ in their speed by far less
_LOOKS = 20  # in the time that the lease lasts
_LONGEST_PAUSE_S = 1.0


class NextStep(Enum):
    """What a host does next."""

    TAKE = auto()  # the lease is free, or was this host's before
    FOLLOW = auto()  # another host has it
    WAIT = auto()  # the lease may be this host's own, from before a reboot: its file is the newest then
    SET_ASIDE = auto()  # another host has it, and there is a database file here, which it has gone on without


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """The newest version of the lease record, and since when it is known. Each look returns the next watch.

    Args:
        found, record: None where the replica has no lease record.
        since_s: when this version was first seen.
        looks: how many there were, of any version.
        is_alive: the holder has renewed its lease since we watch.
    """

    found: ReplicaObject | None = None
    record: LeaseRecord | None = None
    since_s: float = 0.0
    looks: int = 0
    is_alive: bool = False

    def saw(self, found: ReplicaObject | None, now_s: float) -> "LeaseWatch":
        """The watch after a look whose answer came at *now_s*.

        Raises:
            LeaseRecordUnreadable
        """
        if self.looks and found == self.found:
            return LeaseWatch(found, self.record, self.since_s, self.looks + 1, self.is_alive)
        record = LeaseRecord.load(found.body) if found else None
        is_alive = record is not None and self.record is not None and record.token == self.record.token
        return LeaseWatch(found, record, now_s, self.looks + 1, is_alive)

    @property
    def runs_out_s(self) -> float:
        """When the lease has surely run out, unless it is renewed."""
        ttl_s = self.record.ttl_ms / 1000 if self.record else 0.0
        return self.since_s + ttl_s + _MARGIN_S

    def is_free(self, us: LeaseOwner, now_s: float) -> bool:
        """Whether the owner *us* may take the lease."""
        there = self.record
        return there is None or there.is_released or us.took(there) or now_s >= self.runs_out_s

    def may_be_of_earlier_boot(self, us: LeaseOwner) -> bool:
        """Whether this machine may have held the lease itself before a reboot; a clone of its disk would renew it."""
        return self.record is not None and self.record.owner == us.id and not self.is_alive

    def is_overdue(self, us: LeaseOwner, now_s: float) -> bool:
        """Whether the holder has missed a renewal, so that its lease may be about to run out."""
        half_s = self.record.ttl_ms / 2000 if self.record else 0.0
        return not self.is_free(us, now_s) and now_s - self.since_s >= half_s

    def pause_s(self, now_s: float) -> float:
        """How long to wait before the next look: short, and not beyond the end of the lease."""
        ttl_s = self.record.ttl_ms / 1000 if self.record else 0.0
        usual_s = min(_LONGEST_PAUSE_S, ttl_s / _LOOKS)
        return max(0.0, min(usual_s, self.runs_out_s - now_s))


def next_step(watch: LeaseWatch, us: LeaseOwner, now_s: float, *, has_file: bool) -> NextStep:
    """What the host *us* does after a look at the lease."""
    if watch.is_free(us, now_s):
        return NextStep.TAKE
    if not has_file:
        return NextStep.FOLLOW
    return NextStep.WAIT if watch.may_be_of_earlier_boot(us) else NextStep.SET_ASIDE
