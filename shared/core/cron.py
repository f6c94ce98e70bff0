"""Cron expressions in a time zone, as instants in milliseconds UTC."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter

from shared.core.errors import ConfigInvalid

_FIELDS = 5  # croniter also knows seconds and years; a year is a schedule that ends, a second outruns every tick
_LONGEST_GAP = timedelta(hours=2)  # of a wall clock going forward: Antarctica/Troll
_RANDOM = re.compile(r"(?<![a-z])r(?![a-z])", re.IGNORECASE)  # croniter's own: another instant at every look


def validate(expression: str, timezone: str) -> None:
    """Refuse what could never run.

    Raises:
        ConfigInvalid: names the expression or the zone, and why.
    """
    next_occurrence(expression, timezone, after_ms=0)


def next_occurrence(expression: str, timezone: str, *, after_ms: int) -> int:
    """The first instant of the schedule after *after_ms*, both in ms UTC.

    A schedule that names its hours follows the wall clock of *timezone*: on the day the clock goes forward it runs
    once, later by the missing time if its own is missing; on the day it goes back it runs once, the first time. One
    that runs in every hour (``*`` or ``*/n``) follows elapsed time, and so runs in both of the doubled hours.

    Raises:
        ConfigInvalid: the expression or the zone can't be used; says which, and why.
    """
    zone = _zone(timezone)
    fields = expression.split()
    if len(fields) != _FIELDS and not expression.startswith("@"):
        raise ConfigInvalid(
            f"cron expression {expression!r} can't be used: it needs five fields, "
            "minute, hour, day of month, month, day of week"
        )
    if _RANDOM.search(expression):
        raise ConfigInvalid(f"cron expression {expression!r} can't be used: R is a random instant, and no schedule")
    try:
        start = datetime.fromtimestamp(after_ms / 1000, zone)
        if expression == "@hourly" or (len(fields) == _FIELDS and fields[1].startswith("*")):
            return _ms(croniter(expression, start).get_next(datetime))
        return min(_on_the_wall(expression, start, after_ms))
    except (CroniterError, ValueError, KeyError, OverflowError) as error:
        raise ConfigInvalid(f"cron expression {expression!r} can't be used: {error}") from None


def _on_the_wall(expression: str, start: datetime, after_ms: int) -> Iterator[int]:
    """The candidates for the next instant: the first one, and what a gap in the clock makes it overtake."""
    wall = croniter(expression, start.replace(tzinfo=None) - _LONGEST_GAP)
    first: datetime | None = None
    while True:
        naive: datetime = wall.get_next(datetime)
        instant = naive.replace(tzinfo=start.tzinfo)
        if first is not None and naive >= first:
            return
        if _ms(instant) > after_ms:
            yield _ms(instant)
            first = first or datetime.fromtimestamp(instant.timestamp(), start.tzinfo).replace(tzinfo=None)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigInvalid(f"time zone {name!r} is not known; use a name such as 'Europe/Zurich'") from None


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


def successor(expression: str, timezone: str, misfire: str, *, scheduled_ms: int, now_ms: int) -> int:
    """When the next occurrence of a series is due, computed from the one that was due at *scheduled_ms*.

    ``catch_up`` keeps every instant of the grid. ``coalesce`` passes over those that lie in the past, so that a long
    downtime gives one late run and then the next on the grid.

    Raises:
        ConfigInvalid: the expression or the zone can't be used.
    """
    following = next_occurrence(expression, timezone, after_ms=scheduled_ms)
    if misfire == "coalesce" and following <= now_ms:
        following = next_occurrence(expression, timezone, after_ms=now_ms)
    return following
