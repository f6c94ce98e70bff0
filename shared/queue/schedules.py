"""What is planned, as people and agents change it: REST and the tools of agents use the same functions."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import apsw
from pydantic import BaseModel

from shared.core.errors import ConfigInvalid
from shared.core.row_settings import camel
from shared.db.queue.schedules.series import Plan
from shared.db.queue.schedules.settings import SETTINGS
from shared.queue import series
from shared.queue.series import Change

LATEST_MS = 4_102_444_800_000  # the year 2100


def instant_ms(text: str | None, zone: str, *, name: str, now_ms: int) -> int | None:
    """The instant in ms UTC of an ISO 8601 text; without an offset it is on the wall clock of *zone*.

    Args:
        name: of the field, for the error.

    Raises:
        ConfigInvalid: it is no instant, or in the past, or after the year 2099.
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        at_ms = int((at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ConfigInvalid(f"{name} {text!r} is not an ISO 8601 instant, such as 2027-01-31T09:00:00Z") from None
    if not now_ms < at_ms <= LATEST_MS:
        raise ConfigInvalid(f"{name} {text!r} is in the past, or after the year 2099")
    return at_ms


def chosen(body: BaseModel) -> dict[str, Any]:
    """The settings of a schedule that *body* names, by their names."""
    return {name: getattr(body, camel(name)) for name in SETTINGS if camel(name) in body.model_fields_set}


def change(conn: apsw.Connection, plan: Plan, wanted: Change, *, is_enabled: bool | None = None, now_ms: int) -> Plan:
    """Change the plan, from its next run that has not begun, and pause or resume it; the plan afterwards.

    Raises:
        ConfigInvalid: it could never run; the message says why.
        WrongState: its only run has begun.
    """
    if wanted != Change():
        plan = series.update(conn, plan.series_id, wanted, now_ms=now_ms)
    if is_enabled is not None and is_enabled == (plan.status == "paused"):
        verb = series.resume if is_enabled else series.pause
        plan = verb(conn, plan.series_id, now_ms=now_ms)
    return plan
