"""One thing that the report has to say, and what all of them amount to."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How bad it is. What stops the work now no history can tell: that is *not ready* in ``emulator status``."""

    NEEDS_YOU = 2
    WATCH = 1


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing that needs a person, or is to be looked at.

    Args:
        what: a sentence with numbers.
        then: what to do next.
        command: which command begins that; empty: none.
        section: the id of the section that shows it.
    """

    level: Level
    what: str
    then: str
    command: str = ""
    section: str = ""


def worst_first(concerns: Sequence[Concern]) -> tuple[Concern, ...]:
    """The same, in the order in which they are to be read."""
    return tuple(sorted(concerns, key=lambda each: -each.level))
