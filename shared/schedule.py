"""Cron expressions in a time zone, as instants in milliseconds UTC."""

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter

from shared.errors import ConfigInvalid


def validate(expression: str, timezone: str) -> None:
    """Refuse what could never run.

    Raises:
        ConfigInvalid: names the expression or the zone, and why.
    """
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigInvalid(f"time zone {timezone!r} is not known; use a name such as 'Europe/Zurich'") from None
    try:
        next_occurrence(expression, timezone, after_ms=0)
    except (CroniterError, ValueError, KeyError) as error:
        raise ConfigInvalid(f"cron expression {expression!r} can't be used: {error}") from None


def next_occurrence(expression: str, timezone: str, *, after_ms: int) -> int:
    """The first instant of the schedule after *after_ms*, both in ms UTC.

    A schedule that names its hours follows the wall clock of *timezone*: on the day the clock goes forward it runs
    once, an hour later if its time is missing; on the day it goes back it runs once, the first time. One that runs in
    every hour (``*`` or ``*/n``) follows elapsed time, and so runs in both of the doubled hours.
    """
    zone = ZoneInfo(timezone)
    start = datetime.fromtimestamp(after_ms / 1000, zone)
    if expression.split()[1:2] and expression.split()[1].startswith("*"):
        return _ms(croniter(expression, start).get_next(datetime))
    wall = croniter(expression, start.replace(tzinfo=None))
    while True:
        following = _ms(wall.get_next(datetime).replace(tzinfo=zone))
        if following > after_ms:
            return following


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


def successor(expression: str, timezone: str, misfire: str, *, scheduled_ms: int, now_ms: int) -> int:
    """When the next occurrence of a series is due, computed from the one that was due at *scheduled_ms*.

    ``catch_up`` keeps every instant of the grid. ``coalesce`` passes over those that lie in the past, so that a long
    downtime gives one late run and then the next on the grid.
    """
    following = next_occurrence(expression, timezone, after_ms=scheduled_ms)
    if misfire == "coalesce" and following <= now_ms:
        following = next_occurrence(expression, timezone, after_ms=now_ms)
    return following
