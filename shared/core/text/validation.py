"""The words of pydantic's errors, for people."""

import re

from pydantic_core import ErrorDetails

_PREFIXES = ("Value error, ", "Assertion failed, ")  # pydantic puts them before the words of our own validators
_WORDS = {"missing": "is missing", "extra_forbidden": "is not a known name"}
_SUBJECT = re.compile(
    r"^(Input|String|List|Dictionary|Tuple|Value|Bytes) should "
)  # the place before it says what it is


def reason(problem: ErrorDetails) -> str:
    """Why a value is refused, without pydantic's prefix and never with the value."""
    return _WORDS.get(problem["type"]) or _SUBJECT.sub("should ", without_prefix(problem["msg"]))


def without_prefix(text: str) -> str:
    """The words of a validator, without what pydantic puts before them."""
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text


def where(problem: ErrorDetails) -> str:
    """The place of the value: ``teams.dev.agents``; empty for the whole."""
    return ".".join(map(str, problem["loc"]))
