"""What messages and responses have in common where they recur: the series of one table.

::

    planned ──due──> running ──ends, in whatever way──> the next one: planned
     │   ^             │
     │   └── resume    └── update, pause: hands on early, so that the next one is there before this one has ended
     └── pause ──> paused

The *live* row of a series carries its ``recurrence``; an index holds that there is one. A row that hands on gives the
recurrence up in the same transaction. A row with a ``series_id`` and no recurrence is a single occurrence: one that was
planned so, or one that has handed on and has not ended yet.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import apsw

from shared.core import ids
from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows
from shared.db.queue import events, messages
from shared.db.queue.events import EventData

Kind = Literal["message", "response"]


ALREADY_LIVE = "the series has another occurrence that is live"


class Finished(NamedTuple):
    """The last occurrence of a series, whose successor is missing; *scheduled_at* is its instant on the grid."""

    id: int
    recurrence: str
    timezone: str
    misfire: str
    scheduled_at: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is planned of a series: its live occurrence, or the single one.

    Attributes:
        status: ``running`` also of a response of which a part was sent: neither can be changed any more.
        scheduled_at: the instant on the grid.
        due_at: from when it may run, which a retry moves; says nothing while it is paused.
        created_at: when this occurrence was made.
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
    misfire: str
    scheduled_at: int
    due_at: int
    status: Literal["planned", "running", "paused"]
    created_at: int


class Next(NamedTuple):
    """How an occurrence differs from the one that it follows; a text or a label that is None stays as it is."""

    due_ms: int
    recurrence: str | None
    timezone: str | None
    misfire: str
    message: str | None = None
    label: str | None = None
    is_paused: bool = False


class Series(NamedTuple):
    """The series of one table: its statements, and what is done with them.

    Attributes:
        ended: the rows that ended and still carry their recurrence, as ``Finished``.
        give_up: takes the recurrence off the row ``:id``.
        follow: inserts the occurrence after ``:id``, by ``Next``.
        planned: of ``:series``, as ``Plan`` without its kind, the live row first.
        every: the same of all series, or of those with ``:label``; the newest row of each.
        change: makes the row ``:id``, which has not begun, what ``Plan`` says.
        call_off: ends what has not begun of ``:series``.
        called_off: the event that tells so, of each row.

    What is told of a row is ``id, message_id, agent, channel, session_id``; ``give_up``, ``follow`` and ``call_off``
    return it.
    """

    kind: Kind
    ended: str
    give_up: str
    follow: str
    planned: str
    every: str
    change: str
    call_off: str
    called_off: str

    def finished(self, conn: apsw.Connection, *, limit: int) -> list[Finished]:
        """Occurrences that ended, in whatever way, and have not yet handed their series on."""
        return [Finished(*row) for row in rows(conn, self.ended, {"limit": limit})]

    def hand_on(self, conn: apsw.Connection, row_id: int, following: Next, *, now_ms: int) -> None:
        """Insert the next occurrence; the row, whether it has ended or not, gives up the recurrence.

        One statement can't do both, but one transaction does: the caller's. Where another row of the series is live
        already, begun while this one had ended, that one is what follows; it must not stand in the way of whatever
        settlement comes to hand this one on.

        Raises:
            ClaimLost: it has handed on already.
        """
        given_up = rows(conn, self.give_up, {"id": row_id})
        if not given_up:
            raise ClaimLost(f"{self.kind} {row_id} has already handed its series on")
        values = following._asdict() | {"message_id": ids.new("proactive"), "now": now_ms, "id": row_id}
        try:
            (told,) = rows(conn, self.follow, values)
        except apsw.ConstraintError as error:  # only this statement is taken back
            if getattr(error, "extendedresult", None) != apsw.SQLITE_CONSTRAINT_UNIQUE:
                raise
            self._tell(conn, "series_ended", given_up[0], {"reason": ALREADY_LIVE}, now_ms=now_ms)
            return
        if self.kind == "message":  # whose arrival is announced by dispatch
            messages.rename_taken(conn, after=told[0] - 1)
        else:
            self._tell(conn, "response_ready", told, {"deliver_after": following.due_ms}, now_ms=now_ms)

    def end(self, conn: apsw.Connection, row_id: int, reason: str, *, now_ms: int) -> None:
        """There is no next occurrence: the row gives up the recurrence, and an event says why."""
        for told in rows(conn, self.give_up, {"id": row_id}):
            self._tell(conn, "series_ended", told, {"reason": reason}, now_ms=now_ms)

    def find(self, conn: apsw.Connection, series_id: str) -> Plan | None:
        """What is planned of the series, or None."""
        found = rows(conn, self.planned, {"series": series_id})
        return Plan(self.kind, *found[0]) if found else None

    def all(self, conn: apsw.Connection, *, limit: int, label: str | None = None) -> list[Plan]:
        """What is planned of each series, or of those with this label."""
        return [Plan(self.kind, *row) for row in rows(conn, self.every, {"limit": limit, "label": label})]

    def write(self, conn: apsw.Connection, plan: Plan, *, now_ms: int) -> None:
        """Make the row what *plan* says. One that moves begins anew: its attempts are forgotten.

        Raises:
            ClaimLost: it has begun meanwhile.
        """
        values = {
            **{name: getattr(plan, name) for name in ("id", "message", "label", "recurrence", "timezone", "misfire")},
            "scheduled": plan.scheduled_at,
            "due": plan.due_at,
            "is_paused": plan.status == "paused",
            "now": now_ms,
        }
        conn.execute(self.change, values)
        if conn.changes() != 1:
            raise ClaimLost(f"{self.kind} {plan.message_id} has begun")

    def cancel(self, conn: apsw.Connection, plan: Plan, reason: str, *, now_ms: int) -> None:
        """End what has not begun, and let nothing follow what has."""
        for told in rows(conn, self.call_off, {"series": plan.series_id, "reason": reason, "now": now_ms}):
            self._tell(conn, self.called_off, told, {"reason": reason}, now_ms=now_ms)
        rows(conn, self.give_up, {"id": plan.id})

    def tell(
        self, conn: apsw.Connection, type_: str, plan: Plan, data: EventData | None = None, *, now_ms: int
    ) -> None:
        """Record what was done to the series."""
        told = (plan.id, plan.message_id, plan.agent, plan.channel, plan.session_id)
        self._tell(conn, type_, told, {"series_id": plan.series_id, **(data or {})}, now_ms=now_ms)

    def _tell(self, conn: apsw.Connection, type_: str, told: tuple[Any, ...], data: EventData, *, now_ms: int) -> None:
        row_id, message_id, agent, channel, session_id = told
        events.append(
            conn,
            type_,
            now_ms=now_ms,
            message_id=message_id,
            response_id=row_id if self.kind == "response" else None,
            agent=agent,
            channel=channel,
            session_id=session_id,
            data=data,
        )
