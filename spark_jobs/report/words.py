"""Numbers, instants and names as people read them. All instants are UTC."""

import shlex
from collections.abc import Sequence
from datetime import UTC, date, datetime

_LONGEST_NAME = 40
_JOINERS = "\u200c\u200d"  # they belong to scripts and to combined emoji
_SPACE = "\u00a0"  # between a number and its unit, which stay on one line
_ISOLATE, _ISOLATE_END = "\u2068", "\u2069"
MICRO = 1_000_000
NOTHING = "-"
"""In place of a number that is not known."""
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000


def name(text: str | None, longest: int = _LONGEST_NAME) -> str:
    """A name from outside for a line of text: cut, marks of direction as escapes, and kept from turning its line."""
    if not text:
        return "(none)"
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    seen = _seen(cut)
    return seen if seen.isascii() else f"{_ISOLATE}{seen}{_ISOLATE_END}"


def argument(text: str) -> str:
    """A name from outside as one argument of a command that somebody copies into a shell."""
    return shlex.quote(_seen(text))


def number(value: float) -> str:
    """Such as 12,345."""
    return f"{value:,.0f}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Such as "1 message" and "2 messages"."""
    return f"{number(count)} {noun if count == 1 else nouns or noun + 's'}"


def listed(texts: Sequence[str]) -> str:
    """Such as "a, b and c"."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else "none"


def span(ms: float | None) -> str:
    """A length of time, to two digits: "850 ms", "4.2 s", "3 min", "2.5 h", "12 days"."""
    if ms is None:
        return NOTHING
    if ms < SECOND_MS:
        return f"{ms:.0f}{_SPACE}ms"
    for unit_ms, unit, most in ((SECOND_MS, "s", 120), (MINUTE_MS, "min", 120), (HOUR_MS, "h", 48)):
        if ms < most * unit_ms:
            return f"{_two_digits(ms / unit_ms)}{_SPACE}{unit}"
    return f"{_two_digits(ms / DAY_MS)}{_SPACE}days"


def dollars(micro: int) -> str:
    """Micro-dollars as dollars: "$1,234.50"; below a cent with its digits."""
    value = micro / MICRO
    return f"${value:,.2f}" if not value or value >= 0.01 else f"${value:.6f}".rstrip("0")


def day(value: date) -> str:
    """Such as "9 Oct"."""
    return f"{value.day} {value:%b}"


def instant(at_ms: int) -> str:
    """Such as "9 Oct 2025, 12:00 UTC"."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def _seen(text: str) -> str:
    """The text with every character as an escape that can't be seen."""
    return "".join(
        each if each.isprintable() or each in _JOINERS else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )


def _two_digits(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 10 else f"{value:.0f}"
