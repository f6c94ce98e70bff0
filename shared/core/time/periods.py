"""Days and months of a time zone, for what is limited by the day or by the month."""

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

PeriodName = Literal["day", "month"]


class Period(NamedTuple):
    """From *start_ms* until before *end_ms*, both in ms UTC."""

    start_ms: int
    end_ms: int


def containing(period: PeriodName, now_ms: int, timezone: str) -> Period:
    """The day or the month of *timezone* in which *now_ms* lies. A day with a clock change has 23 or 25 hours."""
    now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(timezone))
    start = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if period == "day":
        return Period(_ms(start), _ms(start + timedelta(days=1)))
    first = start.replace(day=1)
    return Period(_ms(first), _ms((first + timedelta(days=32)).replace(day=1)))


def length_ms(period: PeriodName, start_ms: int) -> int:
    """How long the period is that began then in some time zone, without a change of that zone's clocks."""
    if period == "day":
        return 24 * 3_600_000
    first = datetime.fromtimestamp(start_ms / 1000, UTC) + timedelta(days=15)  # of the same month in every zone
    return monthrange(first.year, first.month)[1] * 24 * 3_600_000


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
