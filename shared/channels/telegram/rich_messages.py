"""A rich message, read as text: it has neither text nor entities, but blocks in blocks with parts in parts.

Source: https://core.telegram.org/bots/api (10.3): #richmessage, #richblock, #richtext.
"""

from collections.abc import Iterator
from typing import Any


def lines(block: Any) -> Iterator[str]:
    """The lines of one block of a rich message, whatever it is."""
    if isinstance(block, list):
        yield from (line for part in block for line in lines(part))
    if isinstance(block, dict):
        yield from _line(block.get("text") or block.get("summary") or block.get("expression"))
        for name in ("blocks", "items", "cells"):
            yield from lines(block.get(name))
        caption = block.get("caption")  # rich text under a table, elsewhere an object with a credit of its own
        yield from lines(caption) if isinstance(caption, dict) else _line(caption)
        yield from _line(block.get("credit"))


def _line(text: Any) -> Iterator[str]:
    if line := "".join(_words(text)):
        yield line


def _words(text: Any) -> Iterator[str]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, list):
        yield from (word for part in text for word in _words(part))
    elif isinstance(text, dict):
        yield from _words(text.get("text") or text.get("alternative_text") or text.get("expression"))


def mentions(part: Any) -> Iterator[dict[str, Any]]:
    """The parts that name somebody: by ``username``, or as a ``user`` who has none."""
    if isinstance(part, list):
        yield from (found for inner in part for found in mentions(inner))
    if isinstance(part, dict):
        if part.get("type") in ("mention", "text_mention"):
            yield part
        yield from (found for inner in part.values() for found in mentions(inner))
