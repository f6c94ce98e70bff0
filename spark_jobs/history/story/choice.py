"""Which positions tell most about a message, when only some of them may be restored. Pure functions."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence


def wished(instants: Sequence[int], moments: Collection[int]) -> list[int]:
    """The indexes of the positions that tell all: the first one that has each moment, and the last before all of them.

    Args:
        instants: of the positions, ms UTC, rising.
        moments: when something happened to the message, ms UTC.
    """
    last = len(instants) - 1
    after = {min(bisect_left(instants, moment), last) for moment in moments}
    return sorted({*after, max(min(after) - 1, 0)}) if after else []


def thinned(indexes: Sequence[int], most: int) -> list[int]:
    """Up to *most* of them, spread evenly, with the first and the last."""
    if len(indexes) <= most:
        return list(indexes)
    if most <= 1:
        return list(indexes[-most:]) if most else []
    step = (len(indexes) - 1) / (most - 1)
    return [indexes[round(number * step)] for number in range(most)]


def middle(has_it: int, lacks_it: int) -> int | None:
    """The index half way between two positions; None: there is none in between."""
    return (has_it + lacks_it) // 2 if lacks_it - has_it > 1 else None


def halves(count: int) -> Iterator[int]:
    """All indexes below *count*: the first, the middle, the middles of both halves, and so on."""
    seen: set[int] = set()
    step = count
    while step and len(seen) < count:
        for index in range(0, count, step):
            if index not in seen:
                seen.add(index)
                yield index
        step = max(step // 2, 1)
