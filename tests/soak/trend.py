"""When a figure is flat over the hours: by the slope that half of all pairs of hours lie below (Theil and Sen).

A line with that slope, from the first hour to the last, may rise by a tenth of the median, or by the figure's floor if
that is more. The first hours do not count: caches fill, and rows are not old enough to be pruned.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SHARE = 0.10


@dataclass(frozen=True, slots=True)
class Figure:
    """What is sampled each hour. *floor*: a rise so small is none; *is_judged*: others are shown only."""

    key: str
    title: str
    unit: str
    floor: float
    is_judged: bool = True


@dataclass(frozen=True, slots=True)
class Trend:
    """The rise of a figure over the hours that count, beside what is allowed."""

    first: float
    last: float
    median: float
    rise: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.rise <= self.allowed


def warm_up(hours: int, retention_hours: int) -> int:
    """How many of the first hours do not count: until rows are pruned, but no more than half."""
    return min(retention_hours + 1, hours // 2)


def of(values: Sequence[float], floor: float, *, skip: int) -> Trend:
    """The trend of the values of the hours after the first *skip*."""
    counted = list(values[skip:])
    pairs = itertools.combinations(enumerate(counted), 2)
    slopes = [(later - earlier) / (j - i) for (i, earlier), (j, later) in pairs]
    rise = statistics.median(slopes) * (len(counted) - 1) if slopes else 0.0
    median = statistics.median(counted)
    return Trend(counted[0], counted[-1], median, rise, max(SHARE * median, floor))
