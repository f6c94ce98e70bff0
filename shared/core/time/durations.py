"""Durations: as people write them in commands and settings (``500ms``, ``10s``, ``5m``, ``24h``), and in words."""

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


def time_span(ms: int) -> str:
    """A duration in the two largest units: ``2 d 3 h``, ``14 min``, ``5 s``."""
    left, parts = max(ms, 0) // 1000, []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
