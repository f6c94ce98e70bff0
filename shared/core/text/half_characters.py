"""Half characters: one half of a surrogate pair, as a program writes that cuts its text inside an emoji.

UTF-8 has no form for a half, so neither the database nor a platform takes a text with one. JSON has, ``\\ud83d``, and
Python makes one of each byte of an argument that is not UTF-8. Every door for text from outside replaces the half by
U+FFFD; the rest of the text stays. Two halves that follow each other are a whole character, and stay.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

# A whole pair and every other escape are matched too, so that the search goes on behind them: ``\\\\ud83d`` is no half.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def mend_json(body: bytes) -> bytes:
    """The JSON text *body* with the escape of U+FFFD in place of each escape of a half."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], body)


def read_json(line: bytes) -> Any:
    """The value of the JSON text *line*, without halves.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(mend_json(line).decode("utf-8", "replace"))


def read_object(line: bytes) -> Mapping[str, Any]:
    """The JSON object that a program wrote as *line*; an empty one where it is none."""
    try:
        found = read_json(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def mend(text: str) -> str:
    """*text* with U+FFFD in place of each half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
