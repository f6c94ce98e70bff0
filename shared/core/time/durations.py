"""Durations as people write them in commands and settings: ``500ms``, ``10s``, ``5m``, ``24h``."""

import re

_FORM = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def parse_ms(text: str) -> int:
    """*text* in milliseconds.

    Raises:
        ValueError: a sentence that shows the form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write a whole number and ms, s, m or h, such as 500ms or 10s")
    return int(match[1]) * _UNIT_MS[match[2]]
