"""The geometry of bars and lines. Across it is in percent of the plot's width, so that no text shrinks on a phone;
down it is in pixels.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count
from types import MappingProxyType

from spark_jobs.report.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, day, name, span

HEIGHT = 168
"""Of the plot between its upper line and its base, in pixels."""
COLOURS = 8
"""The last one is for what has none of its own."""
_TOP = 12
_DAY_LABELS = 5
_BAR_SHARE = 0.72
_SPANS_MS = (1, 10, 100, SECOND_MS, 10 * SECOND_MS, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 10 * HOUR_MS, 4 * DAY_MS)


@dataclass(frozen=True, slots=True)
class AxisLabel:
    """A label of an axis, at *at*: percent or pixels."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a column; *x* and *width* in percent."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    says: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of a line."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: int


@dataclass(frozen=True, slots=True)
class Dot:
    """One value of a line."""

    x: float
    y: float
    colour: int
    says: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars or lines, with their axes.

    Args:
        says: the plot in a sentence, for those who do not see it.
        legend: the name of each colour.
    """

    says: str
    legend: tuple[tuple[int, str], ...]
    rows: tuple[AxisLabel, ...]
    columns: tuple[AxisLabel, ...]
    bars: tuple[Bar, ...] = ()
    segments: tuple[Segment, ...] = ()
    dots: tuple[Dot, ...] = ()
    top: int = _TOP
    base: int = _TOP + HEIGHT


Values = Mapping[str, Mapping[date, float]]
"""The values of each series by day, in the order in which they are drawn."""


def stacked(
    days: Sequence[date],
    values: Values,
    shown: Callable[[float], str],
    says: str,
    colours: Mapping[str, int] = MappingProxyType({}),
) -> Chart:
    """A column for each day, with a part for each series. *colours* are those of some labels."""
    series = folded(values)
    colour_of = {label: colours.get(label, _colour(index, label)) for index, label in enumerate(series)}
    sums = [sum(by_day.get(each, 0) for by_day in series.values()) for each in days]
    top = ceiling(max(sums, default=0), is_whole=shown(0.5) == shown(0))
    bars: list[Bar] = []
    for index, each in enumerate(days):
        below = 0.0
        for label, by_day in series.items():
            if value := by_day.get(each, 0):
                upper = _y((below + value) / top)
                x, width = (index + (1 - _BAR_SHARE) / 2) / len(days), _BAR_SHARE / len(days)
                height = _y(below / top) - upper
                said = f"{day(each)}, {name(label)}: {shown(value)}"
                bars.append(Bar(_percent(x), _px(upper), _percent(width), _px(height), colour_of[label], said))
                below += value
    rows = tuple(AxisLabel(_px(_y(part / 4)), shown(top * part / 4)) for part in (0, 2, 4))
    return Chart(says, _legend(series, colour_of), rows, day_ticks(days), bars=tuple(bars))


def lines(days: Sequence[date], values: Values, says: str) -> Chart:
    """A line for each series of times in ms, on a scale of powers; days without a value are gaps."""
    known = [value for by_day in values.values() for value in by_day.values()]
    low, high = time_range(known)
    segments: list[Segment] = []
    dots: list[Dot] = []
    for colour, (label, by_day) in enumerate(values.items()):
        before: Dot | None = None
        for index, each in enumerate(days):
            if each not in by_day:
                before = None
                continue
            y = _y((math.log(max(by_day[each], 1)) - math.log(low)) / (math.log(high) - math.log(low)))
            said = f"{day(each)}, {name(label)}: {span(by_day[each])}"
            dot = Dot(_percent((index + 0.5) / len(days)), _px(y), colour, said)
            if before:
                segments.append(Segment(before.x, before.y, dot.x, dot.y, colour))
            dots.append(dot)
            before = dot
    marks = [each for each in _SPANS_MS if low <= each <= high]
    share = [(math.log(each) - math.log(low)) / (math.log(high) - math.log(low)) for each in marks]
    rows = tuple(AxisLabel(_px(_y(at)), span(mark)) for at, mark in zip(share, marks, strict=True))
    return Chart(
        says,
        _legend(values, dict(zip(values, count()))),
        rows,
        day_ticks(days),
        segments=tuple(segments),
        dots=tuple(dots),
    )


def folded(values: Values) -> Values:
    """At most as many series as there are colours: the largest keep theirs, all others are one."""
    if len(values) <= COLOURS:
        return values
    largest = sorted(values, key=lambda label: -sum(values[label].values()))[: COLOURS - 1]
    kept: dict[str, Mapping[date, float]] = {label: values[label] for label in values if label in largest}
    others: dict[date, float] = {}
    for label, by_day in values.items():
        if label not in kept:
            for each, value in by_day.items():
                others[each] = others.get(each, 0) + value
    return {**kept, OTHERS: others}


OTHERS = "all others"


def _colour(index: int, label: str) -> int:
    """The colour of a series; what stands for others has the last one."""
    return COLOURS - 1 if label == OTHERS else index


def ceiling(highest: float, *, is_whole: bool) -> float:
    """The next round number, whose half is round too."""
    least = 2.0 if is_whole else 1e-6
    value = max(highest, least)
    power = 10.0 ** math.floor(math.log10(value))
    rounded = (round(factor * power, 6) for factor in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10))
    return next(top for top in rounded if top >= value * (1 - 1e-9) and not (is_whole and top % 2))


def time_range(values: Sequence[float]) -> tuple[float, float]:
    """The marks of the axis of times below the least and above the largest value, in ms."""
    least, largest = max(min(values, default=100), 1), max(max(values, default=1000), 2)
    low = max((each for each in _SPANS_MS if each <= least), default=1)
    high = min((each for each in _SPANS_MS if each >= largest), default=largest)
    return (low, high) if low < high else (low / 10, high)


def day_ticks(days: Sequence[date]) -> tuple[AxisLabel, ...]:
    """Labels for a few of the days; the last one always has one."""
    step = max(1, math.ceil(len(days) / _DAY_LABELS))
    chosen = [index for index in range(len(days)) if (len(days) - 1 - index) % step == 0]
    return tuple(AxisLabel(_percent((index + 0.5) / len(days)), day(days[index])) for index in chosen)


def _legend(values: Values, colours: Mapping[str, int]) -> tuple[tuple[int, str], ...]:
    return tuple((colours[label], name(label)) for label, by_day in values.items() if any(by_day.values()))


def _y(share: float) -> float:
    return _TOP + HEIGHT * (1 - share)


def _px(value: float) -> float:
    return round(value, 1)


def _percent(share: float) -> float:
    return round(100 * share, 2)
