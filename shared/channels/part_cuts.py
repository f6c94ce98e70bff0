"""Parts in smaller pieces, where a platform finds a part too long although we counted it within its limit.

Pure: the same cuts of the same parts always give the same pieces. A row that names the cuts says which piece is next.
"""

from collections.abc import Iterable

from shared.channels import markdown
from shared.channels.base import Part

SHORTEST_CUT = 400  # UTF-16 units; no platform finds so little too long


def cut(parts: tuple[Part, ...], index: int) -> tuple[Part, ...]:
    """*parts* with pieces of about half the size in place of part *index*; unchanged where that one is short.

    The pieces have no HTML: a cut can't fall inside a tag.
    """
    if index >= len(parts) or markdown.units(parts[index].text) <= SHORTEST_CUT:
        return parts
    text = parts[index].text
    pieces = markdown.split_source(text, markdown.units(text) // 2 + 100)
    return (*parts[:index], *(Part(piece) for piece in pieces), *parts[index + 1 :])


def cut_all(parts: tuple[Part, ...], cuts: Iterable[int]) -> tuple[Part, ...]:
    """*parts* after all *cuts*, each by the number that its part had at that time."""
    for index in cuts:
        parts = cut(parts, index)
    return parts
