"""The schedules as a calendar."""

from functools import partial

from pydantic import Field
from starlette.requests import Request

from shared.db.views.schedules import run_calendar
from shared.db.views.schedules.run_calendar import RunCalendar
from shared.rest.http.endpoint import Query, endpoint
from shared.rest.http.service import Service

_DAY_MS = 86_400_000
_BEFORE_TODAY = 4


class CalendarQuery(Query):
    """*since*: an instant of the first day, in ms UTC; without it, four days ago."""

    since: int | None = Field(default=None, ge=0, le=4_102_444_800_000)
    days: int = Field(default=7, ge=1, le=14)


@endpoint("GET", "/api/calendar", {503: "too many long reads run at once: try again later"})
async def get_calendar(service: Service, *, query: CalendarQuery, request: Request) -> RunCalendar:
    """Read the schedules as a calendar: for each series and day what was due, what became of it, what is planned.

    The days are those of ``POSTROOM_TIMEZONE``.
    """
    now_ms = service.now_ms()
    since_ms = query.since if query.since is not None else now_ms - _BEFORE_TODAY * _DAY_MS
    found = partial(
        run_calendar.read, since_ms=since_ms, days=query.days, timezone=service.settings.timezone, now_ms=now_ms
    )
    return await service.background_reads.read(found, request.receive)


ENDPOINTS = (get_calendar,)
