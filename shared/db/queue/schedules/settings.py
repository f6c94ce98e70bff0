"""The settings of a schedule, declared once: see :mod:`shared.core.row_settings`.

Each occurrence carries them, in ``messages`` or ``responses``, so that one that runs ends as it began.
"""

from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge, Le, MaxLen

from shared.core.row_settings import RowSetting, settings_of
from shared.core.time.cron import SKIP_GRACE_MS, Misfire
from shared.db.queue.schedules.schedule_runs import RECENT

_MONTH_MS = 31 * 86_400_000


class ScheduleSettings(NamedTuple):
    """What an operator may choose of a schedule beside its time and its text."""

    misfire: Annotated[
        Misfire,
        RowSetting(
            "Runs that were missed while the system was down. coalesce: one run for all of them; catch_up: each of "
            "them; skip: none of them.",
            "missed runs",
            "of runs that were missed: one for all, each, or none",
        ),
    ] = "coalesce"
    grace_ms: Annotated[
        int | None,
        Ge(0),
        Le(_MONTH_MS),
        RowSetting(
            "How late a run may begin; a later one is left out, and counts as missed.",
            "late by at most",
            "ms; a later run is left out",
            unset="however late; of skip, 5 minutes",
        ),
    ] = None
    script: Annotated[
        str,
        MaxLen(20_000),
        RowSetting(
            "A text for /bin/sh that runs before the agent, in its leash: what it writes reaches the agent, and a last "
            'line {"wakeAgent": false} asks no model.',
            "script",
            'runs before the agent; the last line {"wakeAgent": false} asks no model',
        ),
    ] = ""
    wake: Annotated[
        Literal["always", "news"],
        RowSetting(
            "When a run asks the model. news: only if something has come for the agent since the run before.",
            "asks",
            "news: only if something has come for the agent since the run before",
        ),
    ] = "always"


SETTINGS = settings_of(ScheduleSettings)
OF_RESPONSES = ("misfire", "grace_ms")  # a response has no agent

IS_LATE = f"""
     (series_id IS NOT NULL
      AND scheduled_at < :now - CASE misfire WHEN 'skip' THEN ifnull(grace_ms, {SKIP_GRACE_MS}) ELSE grace_ms END
      AND message_id NOT IN (SELECT r.message_id
                               FROM schedule_runs r
                              WHERE r.series_id = {{table}}.series_id
                              ORDER BY r.id DESC
                              LIMIT {RECENT})) IS TRUE
"""  # noqa: S608
"""The SQL of a row of *table* that may not begin any more: its grace has passed, and it has not begun before."""
