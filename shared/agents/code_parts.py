"""The places of code in a text of Markdown: fenced blocks, and code between backticks. What stands there is no tag."""

import re
import sys
from bisect import bisect_right
from collections.abc import Sequence

Ranges = Sequence[tuple[int, int]]
"""Beginnings and ends, in order."""

_FAR = sys.maxsize
_FENCE = re.compile(r"^[ >]{0,8}(?P<fence>`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_TICKS = re.compile(r"(?<!`)(?P<ticks>`{1,2})(?!`)(?P<code>[^`\n](?:[^\n]{0,2000}?[^`\n])??)(?<!`)(?P=ticks)(?!`)")


def closed(text: str) -> Ranges:
    """The code that is closed. Pure."""
    return _found(text)[0]


def all_of(text: str) -> Ranges:
    """Also a last block that is never closed, which Markdown shows as code to the end. Pure."""
    ranges, last = _found(text)
    return ranges if last is None else [*ranges, (last, len(text))]


def merged(*several: Ranges) -> Ranges:
    """All of them in order, with those that meet as one. Pure."""
    done: list[tuple[int, int]] = []
    for start, end in sorted(each for ranges in several for each in ranges):
        if done and start <= done[-1][1]:
            done[-1] = (done[-1][0], max(end, done[-1][1]))
        else:
            done.append((start, end))
    return done


def has(ranges: Ranges, place: int) -> bool:
    """Whether *place* is in one of the ranges, of which none meet."""
    before = bisect_right(ranges, (place, _FAR))
    return before > 0 and place < ranges[before - 1][1]


def _found(text: str) -> tuple[list[tuple[int, int]], int | None]:
    if "`" not in text and "~~~" not in text:
        return [], None
    blocks: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif line["fence"].startswith(opened["fence"]) and not line[0].strip(" >`~"):
            blocks.append((opened.start(), line.end()))
            opened = None
    last = None if opened is None else opened.start()
    taken = blocks if last is None else [*blocks, (last, len(text))]
    ticks = [each.span() for each in _TICKS.finditer(text) if not has(taken, each.start())]
    return sorted([*blocks, *ticks]), last
