"""Patterns that say when an agent engages: regular expressions in RE2's syntax.

RE2 matches in time linear in the text, so no pattern can hold up ingest. Saving a pattern refuses what RE2 lacks:
look-around and back references. https://github.com/google/re2/wiki/Syntax
"""

from functools import lru_cache
from typing import Any

from shared.core.errors import ConfigInvalid

MAX_CHARACTERS = 500
SEARCHED_CHARACTERS = 10_000  # from the beginning of a text
_MEMORY_BYTES = 1 << 20  # of one compiled pattern; RE2 refuses what needs more
_COMPILED = 256


def check(pattern: str) -> None:
    """Refuse a pattern that can't be matched later.

    Raises:
        ConfigInvalid: it is empty, too long, or not an RE2 pattern; the message says what is wrong, and where.
    """
    if not pattern:
        raise ConfigInvalid(
            "the pattern is empty; write '.' to match every text, or use mode 'mention', which needs no pattern"
        )
    if len(pattern) > MAX_CHARACTERS:
        raise ConfigInvalid(f"the pattern has {len(pattern)} characters; at most {MAX_CHARACTERS} are allowed")
    try:
        _compile(pattern)
    except ValueError as error:
        raise ConfigInvalid(f"pattern {pattern!r}: {error}") from None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the first ``SEARCHED_CHARACTERS`` of *text*.

    Raises:
        ValueError: it is not an RE2 pattern.
    """
    return _compile(pattern).search(text[:SEARCHED_CHARACTERS].encode("utf-8", "replace")) is not None


@lru_cache(_COMPILED)
def _compile(pattern: str) -> Any:
    import re2  # here, because only chats with a pattern need its 20 ms

    options = re2.Options()
    options.log_errors = False  # it would write the pattern to stderr
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(pattern.encode(), options)
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair") from None
    except re2.error as error:
        raise ValueError(_sentence(error.args[0])) from None


def _sentence(said: bytes | str) -> str:
    """RE2's own message, which ends with the refused part."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    if "perl operator" in text or "escape sequence" in text:
        return f"{text} (look-around and back references are not available)"
    return text
