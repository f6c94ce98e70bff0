"""The text of a rich message, which has nested blocks instead of text and entities.

Source: https://core.telegram.org/bots/api (10.3): #richmessage, #richblock, #richtext.
"""

from collections.abc import Iterator
from typing import Any


def lines(block: Any) -> Iterator[str]:
    """The lines of text in one block of any type."""
    if isinstance(block, list):
        yield from (line for part in block for line in lines(part))
    if isinstance(block, dict):
        yield from _line(block.get("text") or block.get("summary") or block.get("expression"))
        for name in ("blocks", "items", "cells"):
            yield from lines(block.get(name))
        caption = block.get("caption")  # rich text under a table, elsewhere an object with its own credit
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
    """The mentions: with a ``username``, or with a ``user`` that has none."""
    if isinstance(part, list):
        yield from (found for inner in part for found in mentions(inner))
    if isinstance(part, dict):
        if part.get("type") in ("mention", "text_mention"):
            yield part
        yield from (found for inner in part.values() for found in mentions(inner))
