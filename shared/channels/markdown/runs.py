"""Text in styles: runs, and the blocks that keep them together."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

Style = tuple[str, str]
"""A name of ``b i s code pre quote link``, and its argument: the language of a ``pre``, the address of a ``link``."""


class Run(NamedTuple):
    """Text in one style."""

    text: str
    styles: tuple[Style, ...] = ()


class Block(msgspec.Struct, frozen=True):
    """Runs to keep together, and the blank space before them."""

    runs: tuple[Run, ...]
    gap: str = "\n\n"


def units(text: str) -> int:
    """UTF-16 code units: an upper bound for the count of every platform."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def plain(runs: Sequence[Run]) -> str:
    """The text of *runs* without styles."""
    return "".join(run.text for run in runs)


def with_addresses(runs: Sequence[Run]) -> str:
    """The text of *runs* without styles, and after each link its address: what is left where markup is refused."""
    pieces = []
    for address, group in groupby(runs, key=_address):
        text = plain(list(group))
        is_hidden = address and address.removeprefix("mailto:") != text.strip()
        pieces.append(f"{text} ({address})" if is_hidden else text)
    return "".join(pieces)


def _address(run: Run) -> str:
    return next((argument for name, argument in run.styles if name == "link"), "")


def is_code(runs: Sequence[Run]) -> bool:
    return any(name == "pre" for run in runs for name, _ in run.styles)
