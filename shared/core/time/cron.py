"""Cron expressions in a time zone, as instants in milliseconds UTC."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.core.errors import ConfigInvalid

_FIELDS = 5  # croniter also knows seconds, which are finer than our ticks, and years, after which a schedule would end
_LONGEST_GAP = timedelta(hours=2)  # that a wall clock skips when it goes forward: Antarctica/Troll
_RANDOM = re.compile(r"(?<![a-z])r(?![a-z])", re.IGNORECASE)  # croniter's own R: a different instant at each call


def validate(expression: str, timezone: str) -> None:
    """Refuse an expression or a zone that could never run.

    Raises:
        ConfigInvalid: names the expression or the zone, and the reason.
    """
    next_occurrence(expression, timezone, after_ms=0)


def next_occurrence(expression: str, timezone: str, *, after_ms: int) -> int:
    """The first instant of the schedule after *after_ms*, both in ms UTC.

    A schedule that names its hours follows the wall clock of *timezone* and runs once a day on the days of a change.
    When the clock skips its time, it runs later by the skipped time. When its time comes twice, it runs the first time.
    A schedule of every hour (``*`` or ``*/n``) follows elapsed time, so it runs in both of the doubled hours.

    Raises:
        ConfigInvalid: the expression or the zone can't be used; the message says which, and why.
    """
    zone = _zone(timezone)
    fields = expression.split()
    if len(fields) != _FIELDS and not expression.startswith("@"):
        raise ConfigInvalid(
            f"cron expression {expression!r} can't be used: it needs five fields, "
            "minute, hour, day of month, month, day of week"
        )
    if _RANDOM.search(expression):
        raise ConfigInvalid(
            f"cron expression {expression!r} can't be used: R stands for a random instant; write a number instead"
        )
    from croniter import CroniterError, croniter  # late: ingest starts a tenth sooner without it

    try:
        start = datetime.fromtimestamp(after_ms / 1000, zone)
        if expression == "@hourly" or (len(fields) == _FIELDS and fields[1].startswith("*")):
            return _ms(croniter(expression, start).get_next(datetime))
        return min(_on_the_wall(expression, start, after_ms))
    except (CroniterError, ValueError, KeyError, OverflowError) as error:
        raise ConfigInvalid(f"cron expression {expression!r} can't be used: {error}") from None


def _on_the_wall(expression: str, start: datetime, after_ms: int) -> Iterator[int]:
    """The candidates for the next instant: the first one, and those that it overtakes because the clock skips time."""
    from croniter import croniter

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

    ``catch_up`` keeps every instant of the grid. ``coalesce`` skips those in the past, so after a long downtime there
    is one late run, and then the next one on the grid.

    Raises:
        ConfigInvalid: the expression or the zone can't be used.
    """
    following = next_occurrence(expression, timezone, after_ms=scheduled_ms)
    if misfire == "coalesce" and following <= now_ms:
        following = next_occurrence(expression, timezone, after_ms=now_ms)
    return following
