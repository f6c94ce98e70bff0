"""What is held against a Litestream, and what follows from it: decisions without I/O."""

from dataclasses import dataclass
from enum import IntEnum

FIRST_PAUSE_S, LAST_PAUSE_S = 0.5, 30.0
_SETTLED_S = 30.0  # a Litestream that ran so long had begun well


class Doubt(IntEnum):
    """What is held against the Litestream that runs, or ran last. Of two doubts the greater one counts."""

    NONE = 0
    SAID_TROUBLE = 1  # it could not read the database or write its own files, or its prefix has a hole
    DISPROVEN = 2  # a restore differs from the database, or a drill has killed it
    CANT_READ = 3  # it looks in the file for a page that is still in the log, for ever
    STOOD_STILL = 4  # a request of its to the bucket was never answered
    TORN_COMMIT = 5  # a writer died in a commit, which it may have sent

    @property
    def is_its_own(self) -> bool:
        """Whether the next Litestream may end the same way, and has to wait; as after an end without a doubt."""
        return self < Doubt.STOOD_STILL

    @property
    def needs_mending(self) -> bool:
        """Whether the log has to be checkpointed before the next Litestream.

        A later doubt may hide this one. The next Litestream then fails again, and the second look at it sees that.
        """
        return self is Doubt.CANT_READ


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long the next Litestream waits for its start if the last one is to blame for its own end."""

    pause_s: float = FIRST_PAUSE_S

    def after(self, doubt: Doubt, ran_s: float) -> tuple[float, "Backoff"]:
        """The pause after a Litestream that ended with this doubt when it had run for *ran_s*, and the next backoff."""
        own_s = FIRST_PAUSE_S if ran_s > _SETTLED_S or not doubt.is_its_own else self.pause_s
        is_waiting = doubt.is_its_own or ran_s < FIRST_PAUSE_S
        return own_s if is_waiting else 0.0, Backoff(min(own_s * 2, LAST_PAUSE_S))


def may_rely(doubt: Doubt, *, has_full_copy: bool, is_ending: bool) -> bool:
    """Whether functions may acknowledge what Litestream calls replicated."""
    return has_full_copy and doubt is Doubt.NONE and not is_ending


def is_complete(doubt: Doubt, *, has_full_copy: bool, is_behind: bool) -> bool:
    """Whether the replica should have everything, but for what was committed a moment ago."""
    return has_full_copy and doubt is Doubt.NONE and not is_behind


def has_ended_well(doubt: Doubt, code: int) -> bool:
    """Whether the next Litestream may go on from the local state of one that ended with this exit code."""
    return code == 0 and doubt is Doubt.NONE
