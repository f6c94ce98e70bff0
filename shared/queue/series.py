"""Series: planned messages and responses, once or recurring.

The transaction that ends an occurrence also inserts the next one; if it did not, a later tick does. A series whose
schedule can't be used any more ends with an event, and never delays a settlement.

A running occurrence does not change. A change while it runs makes the next one at once, with the change; the running
one ends as it began, without a successor. Each verb is the work of one transaction, and writes an event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import apsw
import msgspec

from shared.core import content, ids, logs
from shared.core.errors import OF_ONE_ROW, ConfigInvalid, NotFound, WrongState, describe
from shared.core.time import cron
from shared.core.time.cron import Successor
from shared.db.engine.connection import savepoint
from shared.db.queue import messages, responses, sessions
from shared.db.queue.messages import NewMessage
from shared.db.queue.responses import NewResponse
from shared.db.queue.schedules import schedule_runs
from shared.db.queue.schedules.message_series import MESSAGES
from shared.db.queue.schedules.response_series import RESPONSES
from shared.db.queue.schedules.series import CALLED_OFF, Finished, Next, Plan, Series
from shared.db.queue.schedules.settings import ScheduleSettings
from shared.db.queue.sessions import Session

log = logs.get()

HEARTBEAT = "heartbeat"  # the channel of TinyAGI's heartbeats: an agent's recurring question to itself
BATCH = 20  # series that one call advances: some 8 ms of the write lock
TOO_LATE = "it could not begin in time"
_TABLES = (MESSAGES, RESPONSES)


class When(NamedTuple):
    """Once, at *due_ms*; or by *recurrence*, a cron expression on the wall clock of *timezone*, from *due_ms* on."""

    due_ms: int | None = None
    recurrence: str | None = None
    timezone: str = "UTC"
    label: str | None = None
    settings: ScheduleSettings = ScheduleSettings()


class Change(msgspec.Struct, frozen=True):
    """The changes of a series; None means no change. An empty recurrence makes the next occurrence the last one.

    *settings*: those that change, by name.
    """

    message: str | None = None
    label: str | None = None
    due_ms: int | None = None
    recurrence: str | None = None
    timezone: str | None = None
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)


def plan_message(conn: apsw.Connection, new: NewMessage, when: When, *, now_ms: int) -> Plan:
    """Store a message for later, once or recurring; its agent, session and place are already resolved.

    A message for the schedule's own session (``own_session``) brings the id of its series along.

    Raises:
        ConfigInvalid: it could never run; the message says why.
    """
    due_ms, fields = _first(when, new.content, new.series_id, now_ms=now_ms)
    messages.enqueue(conn, new._replace(process_after=due_ms, **fields), now_ms=now_ms)
    MESSAGES.arrange(conn, fields["series_id"], when.settings)
    return get(conn, fields["series_id"])


def own_session(conn: apsw.Connection, new: NewMessage, of: Session, *, now_ms: int) -> NewMessage:
    """The message in a session of its schedule alone, beside the session *of* the chat."""
    series_id = ids.new("series")
    session = sessions.ensure(
        conn, of.agent, of.chat_id, of.thread_id, private_to=of.private_to, series_id=series_id, now_ms=now_ms
    )
    return new._replace(series_id=series_id, session_id=session)


def plan_response(conn: apsw.Connection, new: NewResponse, when: When, *, now_ms: int) -> Plan:
    """The same for a response: a reminder that needs no agent.

    Raises:
        ConfigInvalid: it could never go out; the message says why.
    """
    due_ms, fields = _first(when, new.content, new.series_id, now_ms=now_ms)
    responses.enqueue(conn, new._replace(deliver_after=due_ms, **fields), now_ms=now_ms)
    RESPONSES.arrange(conn, fields["series_id"], when.settings)
    return get(conn, fields["series_id"])


def _first(when: When, encoded: str, series_id: str | None, *, now_ms: int) -> tuple[int, dict[str, Any]]:
    """The instant of the first occurrence, and the fields that messages and responses share."""
    _check(when.recurrence, when.timezone)
    due_ms = when.due_ms
    if due_ms is None:
        if when.recurrence is None:
            raise ConfigInvalid("the schedule has no time: give a recurrence or an instant")
        due_ms = cron.next_occurrence(when.recurrence, when.timezone, after_ms=now_ms)
    return due_ms, {
        "recurrence": when.recurrence,
        "timezone": when.timezone,
        "scheduled_at": due_ms,
        "series_id": series_id or ids.new("series"),
        "content": content.encode(content.decode(encoded) | {"label": when.label}) if when.label else encoded,
    }


def _check(recurrence: str | None, timezone: str) -> None:
    cron.validate(recurrence or "* * * * *", timezone)


def get(conn: apsw.Connection, series_id: str) -> Plan:
    """The plan of the series.

    Raises:
        NotFound: it has ended, or never existed.
    """
    return _find(conn, series_id)[1]


def every(conn: apsw.Connection, *, label: str | None = None, limit: int = 1000) -> list[Plan]:
    """The plans of all series or of those with this label, soonest first; one-time plans too.

    *limit*: of messages, and again of responses.
    """
    plans = [plan for table in _TABLES for plan in table.all(conn, limit=limit, label=label)]
    return sorted(plans, key=lambda plan: (plan.due_at, plan.series_id))


def update(conn: apsw.Connection, series_id: str, change: Change, *, now_ms: int) -> Plan:
    """Change the plan, from the next occurrence that has not begun.

    With a new schedule, that occurrence is due at its first instant; otherwise its instant stays.

    Raises:
        NotFound: no plan has this id.
        ConfigInvalid: the changed series could never run; the message says why.
        WrongState: its only occurrence has begun.
    """
    table, plan = _find(conn, series_id)
    others = [name for name in change.settings if name not in table.settings]
    if any(change.settings[name] != getattr(plan.settings, name) for name in others):
        raise ConfigInvalid(f"no agent is asked for a response: leave out {', '.join(others)}")
    after = _changed(plan, change, now_ms=now_ms)
    if plan.status == "running":
        _hand_on(conn, table, plan, after, now_ms=now_ms)
    else:
        table.write(conn, after, now_ms=now_ms)
    names = [name for name in ("message", "label", "recurrence", "timezone") if _differs(plan, after, name)]
    names += [name for name in after.settings._fields if _differs(plan.settings, after.settings, name)]
    table.record(conn, "series_updated", plan, {"changed": names, "due": after.scheduled_at}, now_ms=now_ms)
    return get(conn, series_id)


def _differs(before: Plan | ScheduleSettings, after: Plan | ScheduleSettings, name: str) -> bool:
    return bool(getattr(before, name) != getattr(after, name))


def _changed(plan: Plan, change: Change, *, now_ms: int) -> Plan:
    """The changed plan. Pure."""
    if change.message is not None and not change.message.strip():
        raise ConfigInvalid("the text is empty")
    named = {name: value for name in ("message", "label", "timezone") if (value := getattr(change, name)) is not None}
    recurrence = plan.recurrence if change.recurrence is None else change.recurrence or None
    after = replace(plan, **named, recurrence=recurrence, settings=plan.settings._replace(**change.settings))
    zone = after.timezone or "UTC"
    _check(recurrence, zone)
    after = replace(after, timezone=zone)
    is_moved = _differs(plan, after, "recurrence") or _differs(plan, after, "timezone")
    if change.due_ms is not None:
        return replace(after, scheduled_at=change.due_ms, due_at=change.due_ms)
    if recurrence is not None and is_moved:
        due_ms = cron.next_occurrence(recurrence, zone, after_ms=now_ms)
        return replace(after, scheduled_at=due_ms, due_at=due_ms)
    return after


def _hand_on(conn: apsw.Connection, table: Series, plan: Plan, after: Plan, *, now_ms: int) -> None:
    """Make the occurrence after the running one now, according to *after*."""
    if plan.recurrence is None:
        raise _only_run_has_begun(table, plan)
    successor = Successor(after.due_at)
    if after.scheduled_at == plan.scheduled_at:
        successor = cron.successor(
            plan.recurrence,
            after.timezone or "UTC",
            after.settings.misfire,
            scheduled_ms=plan.scheduled_at,
            now_ms=now_ms,
        )
    following = Next(
        due_ms=successor.due_ms,
        missed_ms=successor.missed_ms,
        recurrence=after.recurrence,
        timezone=after.timezone,
        settings=after.settings,
        message=after.message,
        label=after.label,
        is_paused=after.status == "paused",
    )
    table.hand_on(conn, plan.id, following, now_ms=now_ms)


def _only_run_has_begun(table: Series, plan: Plan) -> WrongState:
    stop = f"; to stop it, cancel message {plan.message_id}" if table is MESSAGES else ""
    return WrongState(f"the only run of {plan.series_id} has begun, so nothing is left to change{stop}")


def pause(conn: apsw.Connection, series_id: str, *, now_ms: int) -> Plan:
    """Start no new occurrence until the series is resumed.

    Raises:
        NotFound: no plan has this id.
        WrongState: it is paused already, or its only occurrence has begun.
    """
    table, plan = _find(conn, series_id)
    if plan.status == "paused":
        raise WrongState(f"series {series_id} is paused already")
    after = replace(plan, status="paused")
    if plan.status == "running":
        _hand_on(conn, table, plan, after, now_ms=now_ms)
    else:
        table.write(conn, after, now_ms=now_ms)
    table.record(conn, "series_paused", plan, now_ms=now_ms)
    return get(conn, series_id)


def resume(conn: apsw.Connection, series_id: str, *, now_ms: int) -> Plan:
    """Resume a paused series at the next instant of its grid; a one-time plan at its own instant, or now if it is past.

    Raises:
        NotFound: no plan has this id.
        WrongState: it is not paused.
    """
    table, plan = _find(conn, series_id)
    if plan.status != "paused":
        raise WrongState(f"series {series_id} is not paused")
    due_ms = max(plan.scheduled_at, now_ms)
    if plan.recurrence is not None:
        due_ms = cron.next_occurrence(plan.recurrence, plan.timezone or "UTC", after_ms=now_ms)
    after = replace(plan, status="planned", scheduled_at=due_ms, due_at=due_ms)
    table.write(conn, after, now_ms=now_ms)
    table.record(conn, "series_resumed", plan, {"due": due_ms}, now_ms=now_ms)
    return get(conn, series_id)


def cancel(conn: apsw.Connection, series_id: str, *, now_ms: int) -> Plan:
    """End the series: occurrences that have not begun are called off, and nothing follows a running one. The old plan.

    Raises:
        NotFound: no plan has this id.
        WrongState: its only occurrence has begun.
    """
    table, plan = _find(conn, series_id)
    if plan.status == "running" and plan.recurrence is None:
        raise _only_run_has_begun(table, plan)
    _miss_at_end(conn, table, plan, now_ms=now_ms)
    table.cancel(conn, plan, CALLED_OFF, now_ms=now_ms)
    table.record(conn, "series_ended", plan, {"reason": "cancelled"}, now_ms=now_ms)
    return plan


def _miss_at_end(conn: apsw.Connection, table: Series, plan: Plan, *, now_ms: int) -> None:
    """Keep the runs that were due when the series was cancelled."""
    zone = plan.timezone or "UTC"
    due_ms, until_ms = plan.scheduled_at, None
    if plan.status == "paused":
        return
    try:
        if plan.recurrence is not None:
            until_ms = cron.next_occurrence(plan.recurrence, zone, after_ms=now_ms)
            if schedule_runs.has_begun(conn, plan.series_id, plan.message_id):
                due_ms = cron.next_occurrence(plan.recurrence, zone, after_ms=plan.scheduled_at)
    except ConfigInvalid:  # it has no grid any more
        return
    if due_ms <= now_ms:
        table.miss(conn, plan, "ended", due_ms, until_ms, now_ms=now_ms)


def _find(conn: apsw.Connection, series_id: str) -> tuple[Series, Plan]:
    for table in _TABLES:
        plan = table.find(conn, series_id)
        if plan is not None:
            return table, plan
    raise NotFound(f"no plan has the id {series_id!r}")


def pass_over_messages(conn: apsw.Connection, row_ids: Sequence[int], *, now_ms: int) -> bool:
    """Skip the occurrences among these rows whose grace has passed: their series continue at the first instant in time.

    A plan with one occurrence ends. Returns whether there was one.
    """
    return _pass_over(conn, MESSAGES, row_ids, now_ms)


def pass_over_responses(conn: apsw.Connection, row_ids: Sequence[int], *, now_ms: int) -> bool:
    """The same for responses."""
    return _pass_over(conn, RESPONSES, row_ids, now_ms)


def _pass_over(conn: apsw.Connection, table: Series, row_ids: Sequence[int], now_ms: int) -> bool:
    passed = [_pass_over_one(conn, table, each, now_ms) for each in table.find_late(conn, row_ids, now_ms=now_ms)]
    return any(passed)


def _pass_over_one(conn: apsw.Connection, table: Series, plan: Plan, now_ms: int) -> bool:
    if plan.recurrence is None:
        table.miss(conn, plan, "too_late", plan.scheduled_at, None, now_ms=now_ms)
        table.cancel(conn, plan, TOO_LATE, now_ms=now_ms)
        return True
    misfire, grace_ms = plan.settings.misfire, plan.settings.grace_ms
    try:
        due_ms = cron.in_time(plan.recurrence, plan.timezone or "UTC", misfire, grace_ms, now_ms=now_ms)
    except ConfigInvalid:  # it runs now, and then its series ends with this reason
        return False
    table.miss(conn, plan, "too_late", plan.scheduled_at, due_ms, now_ms=now_ms)
    table.write(conn, replace(plan, scheduled_at=due_ms, due_at=due_ms), now_ms=now_ms)
    return True


def advance_messages(conn: apsw.Connection, *, now_ms: int) -> int:
    """Insert the next occurrence of up to ``BATCH`` message series whose last one ended; how many. Safe to repeat."""
    return _advance(conn, MESSAGES, now_ms)


def advance_responses(conn: apsw.Connection, *, now_ms: int) -> int:
    """Insert the next occurrence of response series whose last one ended, up to ``BATCH``; returns how many."""
    return _advance(conn, RESPONSES, now_ms)


def _advance(conn: apsw.Connection, table: Series, now_ms: int) -> int:
    finished = table.finished(conn, limit=BATCH)
    for each in finished:
        try:
            with savepoint(conn):
                _advance_one(conn, table, each, now_ms)
        except (ConfigInvalid, apsw.ConstraintError, *OF_ONE_ROW) as error:
            if (
                isinstance(error, apsw.ConstraintError)
                and getattr(error, "extendedresult", None) not in _REFUSES_A_VALUE
            ):
                raise
            if not isinstance(error, ConfigInvalid):
                log.exception("series.not_advanced", table=table.kind, row=each.id)
            table.end(conn, each.id, describe(error), now_ms=now_ms)
    return len(finished)


_REFUSES_A_VALUE = (apsw.SQLITE_CONSTRAINT_CHECK, apsw.SQLITE_CONSTRAINT_NOTNULL, apsw.SQLITE_CONSTRAINT_FOREIGNKEY)


def _advance_one(conn: apsw.Connection, table: Series, ended: Finished, now_ms: int) -> None:
    successor = cron.successor(
        ended.recurrence, ended.timezone, ended.settings.misfire, scheduled_ms=ended.scheduled_at, now_ms=now_ms
    )
    following = Next(successor.due_ms, ended.recurrence, ended.timezone, ended.settings, missed_ms=successor.missed_ms)
    table.hand_on(conn, ended.id, following, now_ms=now_ms)
