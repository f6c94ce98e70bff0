"""Durations: as people write them in commands and settings (``500ms``, ``10s``, ``5m``, ``24h``), and in words."""

import re

_FORM = re.compile(r"([1-9][0-9]*)(ms|s|m|h)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_MOST_HOURS = 2_000_000  # the kernel's timers end after 292 years
_MOST_DIGITS = 15


class TooLong(ValueError):
    """The form is right, and nobody can wait for so long."""


def parse_ms(text: str) -> int:
    """*text* in milliseconds.

    Raises:
        TooLong
        ValueError: a sentence that shows the form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write a whole number and ms, s, m or h, such as 500ms or 10s")
    return limited_ms(text, match[1], _UNIT_MS[match[2]])


def limited_ms(text: str, count: str, unit_ms: int) -> int:
    """*count*, a number, of a unit, in milliseconds; *text* is what was written.

    Raises:
        TooLong
    """
    ms = int(count[:_MOST_DIGITS]) * unit_ms
    if len(count) > _MOST_DIGITS or ms > _MOST_HOURS * _UNIT_MS["h"]:
        shown = text if len(text) <= 2 * _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
        raise TooLong(f"{shown!r} is too long: the longest duration is {_MOST_HOURS}h")
    return ms


def time_span(ms: int) -> str:
    """A duration in the two largest units: ``2 d 3 h``, ``14 min``, ``5 s``."""
    left, parts = max(ms, 0) // 1000, []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
