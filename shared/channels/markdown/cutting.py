"""Blocks of runs cut to a platform's limit."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

import msgspec

from shared.channels.markdown.runs import Block, Run, Style, is_code, plain, units

_BREAKS = (r"\n", "[.!?\u2026][\"')\\]]*\\s|[\u3002\uff01\uff1f]", r"\s")


class ChunkLimit(msgspec.Struct, frozen=True):
    """The limit of one chunk: UTF-16 *units* of text, and *size* as the sum of *weigh* over its runs."""

    units: int
    size: int
    weigh: Callable[[Run], int]

    def cost(self, runs: Sequence[Run]) -> tuple[int, int]:
        return sum(units(run.text) for run in runs), sum(map(self.weigh, runs))

    def holds(self, costs: tuple[int, int]) -> bool:
        return costs[0] <= self.units and costs[1] <= self.size


def pack(blocks: Sequence[Block], limit: ChunkLimit) -> Iterator[tuple[Run, ...]]:
    """As few chunks as possible, with whole blocks; a block that exceeds one chunk is cut."""
    held: list[Run] = []
    used = (0, 0)
    for block in blocks:
        more = [Run(block.gap, _shared_quote(held, block.runs)), *block.runs] if held else [*block.runs]
        added = limit.cost(more)
        together = (used[0] + added[0], used[1] + added[1])
        if limit.holds(together):
            held.extend(more)
            used = together
            continue
        yield from _visible(held)
        *whole, rest = _cut(block.runs, limit)
        for piece in whole:
            yield from _visible(piece)
        held, used = [*rest], limit.cost(rest)
    yield from _visible(held)


def trim(runs: Sequence[Run]) -> tuple[Run, ...]:
    """*runs* without blank lines at both ends, and without blanks at the end."""
    text = plain(runs)
    start = len(text) - len(text.lstrip("\n"))
    return _slice(runs, start, len(text.rstrip()))


def _shared_quote(before: Sequence[Run], after: Sequence[Run]) -> tuple[Style, ...]:
    quote = ("quote", "")
    return (quote,) if quote in before[-1].styles and quote in after[0].styles else ()


def _visible(runs: Sequence[Run]) -> Iterator[tuple[Run, ...]]:
    if plain(runs).strip():
        yield tuple(runs)


def _cut(runs: tuple[Run, ...], limit: ChunkLimit) -> list[tuple[Run, ...]]:
    pieces = []
    while not limit.holds(limit.cost(runs)):
        end = fitting(runs, limit)
        text = plain(runs)
        end = cut_at(text, end, prefer_lines=is_code(runs))
        pieces.append(_slice(runs, 0, end))
        blank = len(text) - len(text[end:].lstrip("\n" if is_code(runs) else None))
        runs = _slice(runs, blank, len(text))
    return [*pieces, runs]


def fitting(runs: Sequence[Run], limit: ChunkLimit) -> int:
    """How many characters fit; at least one."""
    room, weight, count = limit.units, limit.size, 0
    for run in runs:
        low, high = 0, len(run.text)
        while low < high:  # the longest prefix of this run that fits
            middle = (low + high + 1) // 2
            start = Run(run.text[:middle], run.styles)
            low, high = (
                (middle, high) if units(start.text) <= room and limit.weigh(start) <= weight else (low, middle - 1)
            )
        count += low
        if low < len(run.text):
            break
        room -= units(run.text)
        weight -= limit.weigh(run)
    return max(count, 1)


def _slice(runs: Sequence[Run], start: int, end: int) -> tuple[Run, ...]:
    sliced, at = [], 0
    for run in runs:
        text = run.text[max(start - at, 0) : max(end - at, 0)]
        if text:
            sliced.append(Run(text, run.styles))
        at += len(run.text)
    return tuple(sliced)


def cut_at(text: str, end: int, *, prefer_lines: bool = False) -> int:
    """The best cut at or before *end*: after a line, sentence or word in the second half, else between characters."""
    for pattern in _BREAKS[:1] if prefer_lines else _BREAKS:
        places = [found.end() for found in re.finditer(pattern, text[:end]) if found.end() > end // 2]
        if places:
            return places[-1]
    return _between_characters(text, end)


def _between_characters(text: str, end: int) -> int:
    """The last boundary between visible characters: joined emoji, accents and flags stay whole."""
    for place in range(end, max(end - 32, 0), -1):
        if place == len(text) or not (_joins_left(text[place]) or text[place - 1] == "\u200d"):
            flags = re.search("[\U0001f1e6-\U0001f1ff]*$", text[:place])
            is_half_flag = (
                flags is not None and len(flags[0]) % 2 and "\U0001f1e6" <= text[place : place + 1] <= "\U0001f1ff"
            )
            if not is_half_flag:
                return place
    return end


def _joins_left(character: str) -> bool:
    return (
        character in "\u200d\ufe0e\ufe0f"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or unicodedata.category(character)[0] == "M"
    )
