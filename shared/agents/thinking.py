"""What an agent says to itself, taken out of what it says: ``<internal>``, and the thinking of models.

The same for every provider. A block that is never closed reaches to the end of the text, because a cut answer must not
show what was not meant for people. Models whose chat template opens the block close a block that nobody saw open: all
before that is thinking too. Inside closed code a tag is code.
"""

import re
from typing import NamedTuple

from shared.agents import code_parts

_INTERNAL = "internal"
_NAMES = f"{_INTERNAL}|thinking|think"
_OPENING = re.compile(rf"<(?P<name>{_NAMES})\s*>", re.IGNORECASE)
_CLOSING = re.compile(rf"</(?:{_NAMES})\s*>", re.IGNORECASE)
_MOST_LOOKED_FOR_CODE = 20  # blocks; in a text with more, everything that looks like one goes
_BLANKS = re.compile(r"\n{3,}")


class Spoken(NamedTuple):
    """What is left for people.

    Attributes:
        text: without what the agent said to itself.
        open: the name of the block that the text began and did not close, or None.
        was_internal: the agent marked something as internal, and so may mean to say nothing.
    """

    text: str
    open: str | None = None
    was_internal: bool = False


def without(text: str, still_open: str | None = None) -> Spoken:
    """Take out the blocks of *text*. Pure.

    Args:
        still_open: the name of the block that an earlier text of the same turn left open.
    """
    if "<" not in text and still_open is None:
        return Spoken(text)
    text, still_open, was_internal = _after_open(text, still_open)
    if still_open is not None:
        return Spoken("", still_open, was_internal)
    kept: list[str] = []
    place = 0
    while (opening := _first(_OPENING, text, place, _code(text, place, len(kept)))) is not None:
        was_internal = was_internal or opening["name"].lower() == _INTERNAL
        kept.append(text[place : opening.start()])
        closing = _closing(opening["name"]).search(text, opening.end())
        if closing is None:
            return Spoken(_tidy("".join(kept)), opening["name"].lower(), was_internal)
        place = closing.end()
    return Spoken(_tidy("".join([*kept, text[place:]])) if kept else text, None, was_internal)


def _code(text: str, place: int, blocks: int) -> code_parts.Ranges:
    """The code of the text from *place* on: what a block before it holds begins no code behind it."""
    if blocks >= _MOST_LOOKED_FOR_CODE:
        return []
    return [(start + place, end + place) for start, end in code_parts.closed(text[place:])]


def _after_open(text: str, still_open: str | None) -> tuple[str, str | None, bool]:
    """The text behind the block that was open before it began; also where only its end is seen."""
    if still_open is not None:
        closing = _closing(still_open).search(text)
        is_internal = still_open == _INTERNAL
        return (text, still_open, is_internal) if closing is None else (text[closing.end() :], None, is_internal)
    code = code_parts.closed(text)
    stray, opening = _first(_CLOSING, text, 0, code), _first(_OPENING, text, 0, code)
    if stray is not None and (opening is None or stray.start() < opening.start()):
        return text[stray.end() :].lstrip("\n"), None, False
    return text, None, False


def _first(pattern: re.Pattern[str], text: str, place: int, code: code_parts.Ranges) -> re.Match[str] | None:
    found = pattern.finditer(text, place)
    return next((each for each in found if not code_parts.has(code, each.start())), None)


def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}\s*>", re.IGNORECASE)


def _tidy(text: str) -> str:
    return _BLANKS.sub("\n\n", text).strip()
