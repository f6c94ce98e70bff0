"""What messages and responses have in common where they recur."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finished:
    """The last occurrence of a series, whose successor is missing; *scheduled_at* is its instant on the grid."""

    id: int
    recurrence: str
    timezone: str
    misfire: str
    scheduled_at: int
