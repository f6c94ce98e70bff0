"""The series of one table: what recurring messages and recurring responses have in common.

::

    planned ──due──> running ──ends, in whatever way──> the next one: planned
     │   ^             │
     │   └── resume    └── update, pause: the next one is made now, before this one has ended
     └── pause ──> paused

The *live* row of a series carries its ``recurrence``, and an index allows one such row. A row that hands on the series
loses its recurrence in the same transaction. A row with a ``series_id`` and no recurrence is a single occurrence: it
was planned once, or it has handed on the series and has not ended yet.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import apsw

from shared.core import ids
from shared.core.errors import ClaimLost
from shared.db.engine.columns import assigned
from shared.db.engine.connection import rows
from shared.db.queue import events
from shared.db.queue.events import EventData
from shared.db.queue.schedules import missed_runs
from shared.db.queue.schedules.missed_runs import MissedReason, MissedRuns
from shared.db.queue.schedules.settings import ScheduleSettings

Kind = Literal["message", "response"]


CALLED_OFF = "the series was cancelled"
"""The reason of its planned occurrences that end; jobs over old events know it by this text."""

ALREADY_LIVE = "the series has another occurrence that is live"


class Finished(NamedTuple):
    """An occurrence that ended and has no successor yet; *scheduled_at* is its instant on the grid."""

    id: int
    recurrence: str
    timezone: str
    scheduled_at: int
    settings: ScheduleSettings


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned occurrence of a series: its live one, or the single one.

    Attributes:
        status: ``running`` means that it can't be changed any more: a turn has it, or a part of it was sent.
        scheduled_at: the instant on the grid, in ms.
        due_at: the instant from which it may run, in ms; a retry moves it, and a paused one ignores it.
        created_at: the instant at which this occurrence was made, in ms.
        chat_id: the chat where the answer, or the response, is delivered; None: a client fetches it.
    """

    kind: Kind
    id: int
    series_id: str
    message_id: str
    agent: str | None
    channel: str
    session_id: int | None
    sender: str
    message: str
    label: str | None
    recurrence: str | None
    timezone: str | None
    scheduled_at: int
    due_at: int
    status: Literal["planned", "running", "paused"]
    created_at: int
    chat_id: int | None
    settings: ScheduleSettings


class Next(NamedTuple):
    """How the next occurrence differs from the one before; a message or label of None stays the same.

    *missed_ms*: the first instant between the two that gets no run; None: there is none.
    """

    due_ms: int
    recurrence: str | None
    timezone: str | None
    settings: ScheduleSettings
    message: str | None = None
    label: str | None = None
    is_paused: bool = False
    missed_ms: int | None = None


class _Occurrence(NamedTuple):
    """What an event says of an occurrence."""

    id: int
    message_id: str
    agent: str | None
    channel: str
    session_id: int | None
    series_id: str


class Series(NamedTuple):
    """The statements of one table's series, and the verbs that use them.

    Attributes:
        id_prefix: begins the visible id of each next occurrence.
        ended: the rows that ended and still carry their recurrence, as ``Finished``.
        give_up: removes the recurrence of the row ``:id``.
        follow: inserts the occurrence after ``:id``, by ``Next``; nothing if another message has ``:message_id``.
        planned: the planned occurrence of ``:series``, as ``Plan`` without its kind; the live row first.
        every: the newest planned occurrence of each series, or of those with ``:label``.
        change: changes the row ``:id``, if it has not begun, to what ``Plan`` says.
        call_off: ends the occurrences of ``:series`` that have not begun.
        called_off: the type of the event that records each of those.
        late: the planned occurrences among the rows ``:ids`` whose grace has passed, as ``Plan`` without its kind.
        settings: the names of its columns that are settings of a schedule.

    ``give_up``, ``follow`` and ``call_off`` return the columns of ``_Occurrence``. ``ended``, ``planned``, ``every``
    and ``late`` return the settings last.
    """

    kind: Kind
    id_prefix: str
    ended: str
    give_up: str
    follow: str
    planned: str
    every: str
    change: str
    call_off: str
    called_off: str
    late: str
    settings: tuple[str, ...]

    def finished(self, conn: apsw.Connection, *, limit: int) -> list[Finished]:
        """Occurrences that ended, in whatever way, and have not handed on their series yet."""
        found = rows(conn, self.ended, {"limit": limit})
        return [Finished(*self._with_settings(row)) for row in found]

    def _with_settings(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """The row with its last columns as settings; NULL is the default."""
        count = len(self.settings)
        given = {name: value for name, value in zip(self.settings, row[-count:], strict=True) if value is not None}
        return *row[:-count], ScheduleSettings(**given)

    def _plans(self, found: Iterable[Sequence[Any]]) -> list[Plan]:
        return [Plan(self.kind, *self._with_settings(row)) for row in found]

    def _stored(self, settings: ScheduleSettings) -> dict[str, Any]:
        return {name: getattr(settings, name) for name in self.settings}

    def hand_on(self, conn: apsw.Connection, row_id: int, following: Next, *, now_ms: int) -> None:
        """Insert the next occurrence; the row, ended or not, loses its recurrence. One transaction, the caller's.

        If another row of the series is live already, that row is the next occurrence: this one only loses its
        recurrence, so that it never blocks a settlement.

        Raises:
            ClaimLost: the row has handed on its series already.
        """
        given_up = _occurrences(conn, self.give_up, {"id": row_id})
        if not given_up:
            raise ClaimLost(f"{self.kind} {row_id} has handed on its series already")
        try:
            values = {**following._asdict(), **self._stored(following.settings), "now": now_ms, "id": row_id}
            made = self._follow(conn, values)
        except apsw.ConstraintError as error:  # only this statement is taken back
            if getattr(error, "extendedresult", None) != apsw.SQLITE_CONSTRAINT_UNIQUE:
                raise
            self._record(conn, "series_ended", given_up[0], {"reason": ALREADY_LIVE}, now_ms=now_ms)
            return
        if following.missed_ms is not None:
            grid = (following.recurrence, following.timezone)
            self._miss(conn, given_up[0], grid, "coalesced", following.missed_ms, following.due_ms, now_ms=now_ms)
        if self.kind == "response":  # dispatch announces the arrival of a message
            self._record(conn, "response_ready", made, {"deliver_after": following.due_ms}, now_ms=now_ms)

    def _follow(self, conn: apsw.Connection, values: dict[str, Any]) -> _Occurrence:
        for _ in range(ids.DRAWS):
            for made in _occurrences(conn, self.follow, values | {"message_id": ids.new(self.id_prefix)}):
                return made
        raise RuntimeError(f"no free id was drawn for the occurrence after {self.kind} {values['id']}")

    def end(self, conn: apsw.Connection, row_id: int, reason: str, *, now_ms: int) -> None:
        """No occurrence follows: the row loses its recurrence, and an event says why."""
        for ended in _occurrences(conn, self.give_up, {"id": row_id}):
            self._record(conn, "series_ended", ended, {"reason": reason}, now_ms=now_ms)

    def find(self, conn: apsw.Connection, series_id: str) -> Plan | None:
        """The planned occurrence of the series, or None."""
        found = self._plans(rows(conn, self.planned, {"series": series_id}))
        return found[0] if found else None

    def all(self, conn: apsw.Connection, *, limit: int, label: str | None = None) -> list[Plan]:
        """The planned occurrence of each series, or of those with this label."""
        return self._plans(rows(conn, self.every, {"limit": limit, "label": label}))

    def find_late(self, conn: apsw.Connection, row_ids: Sequence[int], *, now_ms: int) -> list[Plan]:
        """The planned occurrences among these rows that are too late to begin. One that has begun before is not."""
        return self._plans(rows(conn, self.late, {"ids": json.dumps(row_ids), "now": now_ms}))

    def arrange(self, conn: apsw.Connection, series_id: str, settings: ScheduleSettings) -> None:
        """Give the planned occurrence these settings."""
        stored = self._stored(settings)
        if stored != self._stored(ScheduleSettings()):
            sql = f"UPDATE {self.kind}s SET {assigned(stored)} WHERE series_id = :series AND status = 'pending'"
            conn.execute(sql, {**stored, "series": series_id})

    def write(self, conn: apsw.Connection, plan: Plan, *, now_ms: int) -> None:
        """Change the row to what *plan* says. A new instant also resets its attempts.

        Raises:
            ClaimLost: the occurrence has begun meanwhile.
        """
        values = {
            **{name: getattr(plan, name) for name in ("id", "message", "label", "recurrence", "timezone")},
            **self._stored(plan.settings),
            "scheduled": plan.scheduled_at,
            "due": plan.due_at,
            "is_paused": plan.status == "paused",
            "now": now_ms,
        }
        conn.execute(self.change, values)
        if conn.changes() != 1:
            raise ClaimLost(f"{self.kind} {plan.message_id} has begun")

    def cancel(self, conn: apsw.Connection, plan: Plan, reason: str, *, now_ms: int) -> None:
        """End the occurrences that have not begun; nothing follows one that has."""
        data: EventData = {"reason": reason}
        if self.kind == "response":
            data["failure"] = "called_off"
        for ended in _occurrences(conn, self.call_off, {"series": plan.series_id, "reason": reason, "now": now_ms}):
            self._record(conn, self.called_off, ended, data, now_ms=now_ms)
        rows(conn, self.give_up, {"id": plan.id})

    def miss(
        self,
        conn: apsw.Connection,
        plan: Plan,
        reason: MissedReason,
        due_ms: int,
        until_ms: int | None,
        *,
        now_ms: int,
    ) -> None:
        """Record that the instants of *plan*'s grid from *due_ms* on, and before *until_ms*, get no run."""
        self._miss(conn, _occurrence(plan), (plan.recurrence, plan.timezone), reason, due_ms, until_ms, now_ms=now_ms)

    def _miss(
        self,
        conn: apsw.Connection,
        occurrence: _Occurrence,
        grid: tuple[str | None, str | None],
        reason: MissedReason,
        due_ms: int,
        until_ms: int | None,
        *,
        now_ms: int,
    ) -> None:
        missed_runs.note(
            conn,
            MissedRuns(occurrence.series_id, occurrence.message_id, due_ms, until_ms, *grid, reason, noted_at=now_ms),
        )
        data: EventData = {"series_id": occurrence.series_id, "reason": reason, "due": due_ms}
        self._record(conn, "series_missed", occurrence, data, now_ms=now_ms)

    def record(
        self, conn: apsw.Connection, type_: str, plan: Plan, data: EventData | None = None, *, now_ms: int
    ) -> None:
        """Record a change of the series."""
        self._record(conn, type_, _occurrence(plan), {"series_id": plan.series_id, **(data or {})}, now_ms=now_ms)

    def _record(
        self, conn: apsw.Connection, type_: str, occurrence: _Occurrence, data: EventData, *, now_ms: int
    ) -> None:
        events.append(
            conn,
            type_,
            now_ms=now_ms,
            message_id=occurrence.message_id,
            response_id=occurrence.id if self.kind == "response" else None,
            agent=occurrence.agent,
            channel=occurrence.channel,
            session_id=occurrence.session_id,
            data=data,
        )


def _occurrence(plan: Plan) -> _Occurrence:
    return _Occurrence(plan.id, plan.message_id, plan.agent, plan.channel, plan.session_id, plan.series_id)


def _occurrences(conn: apsw.Connection, sql: str, values: dict[str, Any]) -> list[_Occurrence]:
    return [_Occurrence._make(row) for row in rows(conn, sql, values)]
