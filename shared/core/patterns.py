"""Patterns that say when an agent engages: regular expressions in RE2's syntax, matched in time linear in the text.

No pattern can hold up ingest, whatever stands in it; what RE2 has not (look-around, back references) is refused when
a pattern is saved. https://github.com/google/re2/wiki/Syntax
"""

from functools import lru_cache
from typing import Any

from shared.core.errors import ConfigInvalid

MAX_CHARACTERS = 500
SEARCHED_CHARACTERS = 10_000  # characters of a text, from its beginning
_MEMORY_BYTES = 1 << 20  # of one compiled pattern; RE2 refuses what needs more
_COMPILED = 256


def check(pattern: str) -> None:
    """Refuse a pattern that could not be matched later.

    Raises:
        ConfigInvalid: it is empty, too long, or no RE2 pattern; the message says what is wrong, and where.
    """
    if not pattern:
        raise ConfigInvalid("pattern: it is empty; '.' matches every text, and mode 'mention' needs none")
    if len(pattern) > MAX_CHARACTERS:
        raise ConfigInvalid(f"pattern: {len(pattern)} characters long; at most {MAX_CHARACTERS}")
    try:
        _compile(pattern)
    except ValueError as error:
        raise ConfigInvalid(f"pattern {pattern!r}: {error}") from None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in *text*, of which only the beginning is looked at.

    Raises:
        ValueError: the pattern is none.
    """
    return _compile(pattern).search(text[:SEARCHED_CHARACTERS].encode("utf-8", "replace")) is not None


@lru_cache(_COMPILED)
def _compile(pattern: str) -> Any:
    import re2  # 20 ms that only chats with a pattern need

    options = re2.Options()
    options.log_errors = False  # on stderr, with the pattern in it
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(pattern.encode(), options)
    except UnicodeEncodeError:
        raise ValueError("half of a character pair stands in it") from None
    except re2.error as error:
        raise ValueError(_sentence(error.args[0])) from None


def _sentence(said: bytes | str) -> str:
    """RE2's words; they end with the piece that it minds."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    if "perl operator" in text or "escape sequence" in text:
        return f"{text} (look-around and back references are not available)"
    return text
