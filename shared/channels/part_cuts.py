"""Parts in smaller pieces, where a platform finds a part too long although we counted it within its limit.

Pure: the same cuts of the same parts always give the same pieces. A row that names the cuts says which piece is next.
"""

from collections.abc import Iterable
from dataclasses import replace

from shared.channels.base import Part
from shared.channels.markdown.runs import units

SHORTEST_CUT = 400  # UTF-16 units; no platform finds so little too long


def cut(parts: tuple[Part, ...], index: int) -> tuple[Part, ...]:
    """*parts* with smaller pieces in place of part *index*; unchanged where that one can't be smaller.

    A text is cut to about half the size; its pieces have no HTML: a cut can't fall inside a tag. A caption goes out
    before its files, and then an album goes out file by file.
    """
    if index >= len(parts):
        return parts
    return (*parts[:index], *_pieces(parts[index]), *parts[index + 1 :])


def _pieces(part: Part) -> tuple[Part, ...]:
    if part.files and part.text:
        return (replace(part, files=()), Part("", files=part.files))
    if len(part.files) > 1:
        return tuple(Part("", files=(file,)) for file in part.files)
    if units(part.text) <= SHORTEST_CUT:
        return (part,)
    from shared.channels.markdown.source import split_source  # late: the parser takes 1.4 MB, and such parts are rare

    pieces = split_source(part.text, units(part.text) // 2 + 100)
    return tuple(Part(piece) for piece in pieces)


def cut_all(parts: tuple[Part, ...], cuts: Iterable[int]) -> tuple[Part, ...]:
    """*parts* after all *cuts*, each by the number that its part had at that time."""
    for index in cuts:
        parts = cut(parts, index)
    return parts
