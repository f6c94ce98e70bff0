"""One thing that the report has to say, and what all of them amount to."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from shared.conversation.access.health import Need
from spark_jobs.report.words import name

LONGEST = 300
"""The reason of a pause may be what a program wrote."""


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


def of_health(need: Need, section: str) -> Concern:
    """A need as ``emulator status`` says it, in the same words."""
    what = name(need.what, LONGEST)
    return Concern(
        Level.NEEDS_YOU, f"{what[:1].upper()}{what[1:]}.", f"{need.then}:", name(need.command, LONGEST), section
    )
