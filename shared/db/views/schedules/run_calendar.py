"""The schedules as a calendar: for each series and day what was due, what became of it, and what is planned.

However long the history and however many series: the rows of the days are found by their ids, which grow with the
clock, and of a full calendar only the newest are read.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Literal
from zoneinfo import ZoneInfo

import apsw
import msgspec
from typing_extensions import TypedDict

from shared.core.time import cron, periods
from shared.core.time.durations import time_span
from shared.db.engine.connection import rows, savepoint
from shared.db.queue.schedules.message_series import MESSAGES
from shared.db.queue.schedules.missed_runs import MissedRuns
from shared.db.queue.schedules.response_series import RESPONSES
from shared.db.queue.schedules.series import Plan
from shared.db.views import books, why, why_sentences
from shared.db.views.schedules import runs
from shared.db.views.schedules.runs import LATE_MS, Outcome, RunEnd

LARGEST = 3_000  # rows of the days that are read
SHOWN = 12  # runs of a series on a day that are told one by one, and fewer where there are many series
_SHOWN_IN_ALL = 1_400
_SERIES = 200
_TOLD = 200  # runs of which it is looked up what they said
_PLANNED = 600  # instants in all
_BEGINS_LATE_MS = 2 * periods.length_ms("day", 0)  # a run that begins later than this is told on no day
ONCE = "once"
_TEXT = f"{RESPONSES.id_prefix}_"  # begins the id of a text without an agent, which has no story

State = Literal["ran", "late", "failed", "cancelled", "skipped", "missed", "running", "waits", "planned"]
_STATES: dict[Outcome, State] = {
    "failed": "failed",
    "cancelled": "cancelled",
    "not_run": "skipped",
    "running": "running",
    "waits": "waits",
}


class CalendarRun(TypedDict):
    """A run, or an instant without one. *words*: what became of it, with the clock of the calendar.

    *state*: ``ran``, ``late`` (it began a minute after its instant, or later), ``failed``, ``cancelled``, ``skipped``
    (no model was asked, or another run stood for it), ``missed``, ``running``, ``waits``, ``planned``. *messageId*: of
    its story. *count*: of instants without a run, how many they are.
    """

    dueAt: int
    startedAt: int | None
    state: State
    words: str
    count: int
    messageId: str | None


class CalendarDay(TypedDict):
    """A day of a series: *total* runs and instants, of which *runs* tells a few: what went wrong, then the newest.

    They are 12 at most, and fewer where the calendar has more than 116 days of series.

    *hasMore*: more is planned than *total* counts.
    """

    total: int
    late: int
    failed: int
    missed: int
    planned: int
    hasMore: bool
    runs: list[CalendarRun]


class CalendarSeries(TypedDict):
    """A series and its days. *id* ``once``: all schedules that run a single time, together."""

    id: str
    label: str
    agentId: str
    cron: str
    timezone: str
    isEnabled: bool
    days: list[CalendarDay]


class RunCalendar(TypedDict):
    """*days*: when each begins, in *timezone*, and the last one's end.

    *completeSince*: what was due before is left out. *others*: how many series more have something in these days.
    """

    at: int
    timezone: str
    days: list[int]
    completeSince: int
    series: list[CalendarSeries]
    others: int


# A run that has begun: its series, its message, due_at, started_at, whether it recurs. No class: there are thousands.
_Begun = tuple[str, str, int, int, int]
_STARTED_AT, _DUE_AT = itemgetter(3), itemgetter("dueAt")


class _Day(msgspec.Struct):
    """What was found of a series on one day; the newest first. *ran*: neither failed nor late."""

    failed: list[_Begun] = msgspec.field(default_factory=list)
    late: list[_Begun] = msgspec.field(default_factory=list)
    ran: list[_Begun] = msgspec.field(default_factory=list)
    missed: list[MissedRuns] = msgspec.field(default_factory=list)
    waiting: list[Plan] = msgspec.field(default_factory=list)
    planned: list[tuple[int, Plan]] = msgspec.field(default_factory=list)
    has_more: bool = False

    @property
    def begun(self) -> list[_Begun]:
        """The runs, what went wrong first."""
        return self.failed + self.late + self.ran

    def told(self, most: int) -> list[_Begun]:
        """The runs that are told one by one, in *most* places: instants that got no run have the first ones."""
        left = max(0, most - min(most, len(self.waiting)) - min(most, len(self.missed)))
        return (self.failed[:left] + self.late[:left] + self.ran[:left])[:left]


_BEGUN = """
    SELECT series_id, message_id, due_at, started_at, recurrence IS NOT NULL
      FROM schedule_runs
     WHERE id >= :first AND id < :end AND due_at >= :since AND due_at < :until
     ORDER BY id DESC
     LIMIT :limit
"""
_MISSED = f"""
    SELECT {", ".join(MissedRuns._fields)}
      FROM missed_runs
     WHERE id >= :first AND id < :end AND due_at >= :since AND due_at < :until
     ORDER BY id DESC
     LIMIT :limit
"""  # noqa: S608 - columns of ours
# Of a response that is dead, its series says so; both by partial indexes.
_FAILED = """
    SELECT message_id FROM messages WHERE status = 'dead' AND series_id IS NOT NULL
    UNION ALL
    SELECT message_id FROM responses WHERE status = 'dead' AND series_id IS NOT NULL
"""
_OF_MESSAGES = """
    SELECT series_id, agent, content ->> '$.label'
      FROM messages
     WHERE message_id IN (SELECT value FROM json_each(:ids))
"""


def read(conn: apsw.Connection, since_ms: int, *, days: int, timezone: str, now_ms: int) -> RunCalendar:
    """The calendar of so many days of *timezone*, from that of *since_ms* on. One read transaction."""
    bounds = [periods.containing("day", since_ms, timezone).start_ms]
    for _ in range(days):
        bounds.append(periods.containing("day", bounds[-1], timezone).end_ms)
    with savepoint(conn):
        plans = {plan.series_id: plan for table in (MESSAGES, RESPONSES) for plan in table.all(conn, limit=1000)}
        begun, complete_since = _begun(conn, bounds[0], bounds[-1])
        failed = {message_id for (message_id,) in rows(conn, _FAILED)}
        found: dict[str, list[_Day]] = defaultdict(lambda: [_Day() for _ in range(days)])
        for run in begun:
            series_id, message_id, due_at, started_at, recurs = run
            day = found[series_id if recurs else ONCE][_day_of(due_at, bounds)]
            is_late = started_at - due_at >= LATE_MS
            (day.failed if message_id in failed else day.late if is_late else day.ran).append(run)
        for missed in _missed(conn, bounds[0], bounds[-1]):
            found[missed.series_id if missed.recurrence else ONCE][_day_of(missed.due_at, bounds)].missed.append(missed)
        _plan(found, plans.values(), bounds, now_ms=now_ms)
        named = _names(conn, found, plans)
        order = sorted(found, key=lambda each: (each == ONCE, named[each][0].lower(), each))
        shown = min(SHOWN, max(1, _SHOWN_IN_ALL // max(1, min(len(order), _SERIES) * days)))
        told = (run for each in order[:_SERIES] for day in found[each] for run in day.told(shown))
        ends = runs.ends_of(conn, [run[:2] for run in islice(told, _TOLD)])
        teller = _Teller(conn, timezone, now_ms, ends=ends, shown=shown)
        listed = [
            _series(each, named[each], plans.get(each), [teller.day(day) for day in found[each]])
            for each in order[:_SERIES]
        ]
    return {
        "at": now_ms,
        "timezone": timezone,
        "days": bounds,
        "completeSince": complete_since,
        "series": listed,
        "others": max(0, len(order) - _SERIES),
    }


def _day_of(at_ms: int, bounds: Sequence[int]) -> int:
    return bisect_right(bounds, at_ms) - 1


def _begun(conn: apsw.Connection, since_ms: int, until_ms: int) -> tuple[list[_Begun], int]:
    """The runs that were due then, newest first, and since when they are all of them."""
    values = {
        "first": books.first_since(conn, "schedule_runs", since_ms, "started_at"),
        "end": books.first_since(conn, "schedule_runs", until_ms + _BEGINS_LATE_MS, "started_at"),
        "since": since_ms,
        "until": until_ms,
        "limit": LARGEST,
    }
    found: list[_Begun] = rows(conn, _BEGUN, values)
    return found, since_ms if len(found) < LARGEST else _STARTED_AT(found[-1])


def _missed(conn: apsw.Connection, since_ms: int, until_ms: int) -> list[MissedRuns]:
    values = {
        "first": books.first_since(conn, "missed_runs", since_ms, "noted_at"),
        "end": books.first_since(conn, "missed_runs", until_ms + _BEGINS_LATE_MS, "noted_at"),
        "since": since_ms,
        "until": until_ms,
        "limit": LARGEST // 10,
    }
    return [MissedRuns(*row) for row in rows(conn, _MISSED, values)]


def _plan(found: dict[str, list[_Day]], plans: Iterable[Plan], bounds: Sequence[int], *, now_ms: int) -> None:
    """Put the instants to come into *found*, and those that are due and have not begun."""
    left = _PLANNED
    for plan in plans:
        if plan.status == "paused":
            continue
        name = plan.series_id if plan.recurrence else ONCE
        if plan.status == "planned" and bounds[0] <= plan.scheduled_at <= now_ms and plan.scheduled_at < bounds[-1]:
            found[name][_day_of(plan.scheduled_at, bounds)].waiting.append(plan)
        for number, until_ms in enumerate(bounds[1:]):
            since_ms = max(bounds[number], now_ms + 1)
            if since_ms >= until_ms:
                continue
            instants = list(islice(_instants(plan, since_ms, until_ms), min(left, SHOWN) + 1))
            if instants:
                day = found[name][number]
                day.has_more = day.has_more or len(instants) > min(left, SHOWN)
                taken = instants[: min(left, SHOWN)]
                day.planned += [(at_ms, plan) for at_ms in taken]
                left -= len(taken)


def _instants(plan: Plan, since_ms: int, until_ms: int) -> Iterator[int]:
    """The instants of the plan from then until before then."""
    at_ms = plan.scheduled_at
    if plan.recurrence is None or plan.timezone is None:
        yield from (at_ms,) if since_ms <= at_ms < until_ms and plan.status == "planned" else ()
        return
    if at_ms < since_ms or plan.status == "running":
        at_ms = _following(plan.recurrence, plan.timezone, max(at_ms, since_ms - 1))
    while at_ms < until_ms:
        yield at_ms
        at_ms = _following(plan.recurrence, plan.timezone, at_ms)


@lru_cache(maxsize=8192)
def _following(recurrence: str, timezone: str, after_ms: int) -> int:
    return cron.next_occurrence(recurrence, timezone, after_ms=after_ms)


def _names(conn: apsw.Connection, found: dict[str, list[_Day]], plans: dict[str, Plan]) -> dict[str, tuple[str, str]]:
    """Of each series its label and its agent; of one that has ended by its newest run, as long as that is kept."""
    newest = {
        each: next((max(day.begun, key=_STARTED_AT)[1] for day in reversed(days) if day.begun), None)
        for each, days in found.items()
        if each not in plans and each != ONCE
    }
    ids = json.dumps([each for each in newest.values() if each])
    told = {series_id: (label, agent) for series_id, agent, label in rows(conn, _OF_MESSAGES, {"ids": ids})}
    names = {ONCE: ("once", "")}
    for each in found:
        if each != ONCE:
            plan = plans.get(each)
            label, agent = (plan.label, plan.agent) if plan else told.get(each, (None, None))
            names[each] = (label or each, agent or "")
    return names


def _series(id_: str, named: tuple[str, str], plan: Plan | None, days: list[CalendarDay]) -> CalendarSeries:
    return {
        "id": id_,
        "label": named[0],
        "agentId": named[1],
        "cron": (plan.recurrence if plan else None) or "",
        "timezone": (plan.timezone if plan else None) or "UTC",
        "isEnabled": plan is not None and plan.status != "paused",
        "days": days,
    }


class _Teller:
    """Tells what became of *shown* runs of a day; of those in *ends* also what they said."""

    def __init__(
        self, conn: apsw.Connection, timezone: str, now_ms: int, *, ends: dict[str, RunEnd], shown: int
    ) -> None:
        self._conn, self._timezone, self._now_ms = conn, timezone, now_ms
        self._zone, self._ends, self._shown = ZoneInfo(timezone), ends, shown
        self._busy_agents: dict[str, int] = {}

    def day(self, day: _Day) -> CalendarDay:
        most, failed, late, planned = self._shown, len(day.failed), len(day.late), len(day.planned)
        shown = [*map(self._waits, day.waiting[:most]), *map(self._missed, day.missed[:most])]
        shown += [self._begun(each, is_failed=number < failed) for number, each in enumerate(day.told(most))]
        shown += [_planned(*each) for each in day.planned[: max(0, most - len(shown))]]
        missed = sum([runs.missed_words(each, self._timezone)[0] for each in day.missed])
        return {
            "total": failed + late + len(day.ran) + missed + len(day.waiting) + planned,
            "late": late,
            "failed": failed,
            "missed": missed,
            "planned": planned,
            "hasMore": day.has_more,
            "runs": sorted(shown, key=_DUE_AT),
        }

    def _begun(self, run: _Begun, *, is_failed: bool) -> CalendarRun:
        _, message_id, due_at, started_at, _ = run
        is_message = not message_id.startswith(_TEXT)
        end = self._ends.get(message_id) or RunEnd("failed" if is_failed else "ended" if is_message else "sent")
        return {
            "dueAt": due_at,
            "startedAt": started_at,
            "state": _STATES.get(end.outcome, "late" if started_at - due_at >= LATE_MS else "ran"),
            "words": runs.sentence(end, due_at, started_at, self._zone),
            "count": 1,
            "messageId": message_id if is_message else None,
        }

    def _missed(self, missed: MissedRuns) -> CalendarRun:
        count, words = runs.missed_words(missed, self._timezone)
        return {
            "dueAt": missed.due_at,
            "startedAt": None,
            "state": "skipped" if missed.reason == "coalesced" else "missed",
            "words": words,
            "count": count,
            "messageId": None if missed.message_id.startswith(_TEXT) else missed.message_id,
        }

    def _waits(self, plan: Plan) -> CalendarRun:
        """A plan that is due: with the sentence of why it waits."""
        reason = None
        now_ms = self._now_ms
        if plan.kind == "message":
            message = why.message(self._conn, plan.id, now_ms=now_ms, busy_agents=self._busy_agents)
            reason = why_sentences.of_message(message, now_ms=now_ms).reason if message else None
        elif response := why.response(self._conn, plan.id, now_ms=now_ms):
            reason = why_sentences.of_response(response, now_ms=now_ms).reason
        due = f"due for {time_span(now_ms - plan.scheduled_at)}"
        return {
            "dueAt": plan.scheduled_at,
            "startedAt": None,
            "state": "waits",
            "words": f"{due}: {reason}" if reason else due,
            "count": 1,
            "messageId": plan.message_id if plan.kind == "message" else None,
        }


def _planned(at_ms: int, plan: Plan) -> CalendarRun:
    return {
        "dueAt": at_ms,
        "startedAt": None,
        "state": "planned",
        "words": "planned",
        "count": 1,
        "messageId": None,
    }
