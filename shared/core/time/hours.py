"""Hours of a day, such as quiet hours: ``22:00-07:00`` in a time zone."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.core.time.periods import Period

_FORM = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def checked(text: str | None) -> str | None:
    """*text* itself.

    Raises:
        ValueError: a sentence that shows the form.
    """
    if text is not None:
        _parse(text)
    return text


def checked_zone(name: str | None) -> str | None:
    """The name of a time zone, as it is written there.

    Raises:
        ValueError: a sentence for people.
    """
    try:
        return None if name is None else ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("unknown time zone; use a name such as 'Europe/Zurich'") from None


def latest(text: str, now_ms: int, timezone: str) -> Period:
    """The hours that began last: *now_ms* lies in them, or they are over."""
    begin, end = _parse(text)
    now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(timezone))
    start = now.replace(hour=begin[0], minute=begin[1], second=0, microsecond=0, fold=0)
    if start > now:
        start -= timedelta(days=1)
    until = start.replace(hour=end[0], minute=end[1])
    if until <= start:
        until += timedelta(days=1)
    return Period(round(start.timestamp() * 1000), round(until.timestamp() * 1000))


def _parse(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    found = _FORM.fullmatch(text)
    if found is None or found.group(1, 2) == found.group(3, 4):
        raise ValueError(f"{text[:20]!r} are no hours of a day: write two different times such as 22:00-07:00")
    return (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
