"""Cron expressions in a time zone, as instants in milliseconds UTC."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.core.errors import ConfigInvalid

Misfire = Literal["coalesce", "catch_up", "skip"]
SKIP_GRACE_MS = 300_000
"""How late a run may begin that is skipped when it was missed: the turn before it may take as long."""

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


class Successor(NamedTuple):
    """When the next occurrence is due, and the first instant before it that gets no run; None: there is none."""

    due_ms: int
    missed_ms: int | None = None


def successor(expression: str, timezone: str, misfire: Misfire, *, scheduled_ms: int, now_ms: int) -> Successor:
    """When the next occurrence of a series is due, computed from the one that was due at *scheduled_ms*.

    ``catch_up`` keeps every instant of the grid. ``coalesce`` and ``skip`` pass over those that have gone by while that
    occurrence waited or ran.

    Raises:
        ConfigInvalid: the expression or the zone can't be used.
    """
    following = next_occurrence(expression, timezone, after_ms=scheduled_ms)
    if misfire != "catch_up" and following <= now_ms:
        return Successor(next_occurrence(expression, timezone, after_ms=now_ms), following)
    return Successor(following)


def in_time(expression: str, timezone: str, misfire: Misfire, grace_ms: int | None, *, now_ms: int) -> int:
    """The first instant whose run is not too late at *now_ms*: its lateness is within the grace.

    Raises:
        ConfigInvalid: the expression or the zone can't be used.
    """
    return next_occurrence(expression, timezone, after_ms=now_ms - (_grace(misfire, grace_ms) or 0) - 1)


def _grace(misfire: Misfire, grace_ms: int | None) -> int | None:
    return SKIP_GRACE_MS if grace_ms is None and misfire == "skip" else grace_ms


def between(expression: str | None, timezone: str | None, *, due_ms: int, until_ms: int | None, most: int) -> list[int]:
    """*due_ms* and the instants of the grid after it and before *until_ms*, up to *most*."""
    found = [due_ms]
    if expression is None or until_ms is None:
        return found
    while len(found) < most:
        following = next_occurrence(expression, timezone or "UTC", after_ms=found[-1])
        if following >= until_ms:
            break
        found.append(following)
    return found
