"""Limits on what agents spend: of one agent or of all together, a day or a month, in money or in tokens.

::

    (no notice) ──nearly──> nearly ──used_up──> used_up        of one period; the next period begins without a notice
"""

from typing import Literal, NamedTuple

import apsw

from shared.core.time.periods import PeriodName
from shared.db.engine.connection import rows

UnitName = Literal["money", "tokens"]
Notice = Literal["nearly", "used_up"]


class Budget(NamedTuple):
    """A row of ``budgets``.

    Attributes:
        agent: None: all agents together.
        amount: micro-dollars, or tokens of all kinds.
        notice: the last one that was given, in the period that began at *notice_of* (ms UTC).
        extra: what was given beyond the amount, for the period that began at *extra_of*.
    """

    id: int
    agent: str | None
    period: PeriodName
    unit: UnitName
    amount: int
    notice: Notice | None
    notice_of: int | None
    extra: int = 0
    extra_of: int | None = None

    def limit(self, start_ms: int) -> int:
        """What may be used in the period that begins then."""
        return self.amount + (self.extra if self.extra_of == start_ms else 0)


_COLUMNS = "SELECT id, agent, period, unit, amount, notice, notice_of, extra, extra_of FROM budgets"
OF_AGENT = _COLUMNS + " WHERE agent = :agent OR agent IS NULL ORDER BY id"


def every(conn: apsw.Connection, agent: str | None = None) -> list[Budget]:
    """All budgets, those of all agents together first; with *agent*, only the agent's own."""
    found = rows(
        conn,
        _COLUMNS + " WHERE :agent IS NULL OR agent = :agent ORDER BY ifnull(agent, ''), period, unit",
        {"agent": agent},
    )
    return [Budget(*row) for row in found]


def that_bind(conn: apsw.Connection, agent: str) -> list[Budget]:
    """The budgets that the agent's requests count against: its own, and those of all agents together."""
    return [Budget(*row) for row in rows(conn, OF_AGENT, {"agent": agent})]


def put(
    conn: apsw.Connection, agent: str | None, period: PeriodName, unit: UnitName, amount: int, *, now_ms: int
) -> bool:
    """Set the budget; whether that changes anything.

    Another amount than before begins without a notice, so that each new limit is told again; what was given beyond the
    old amount is void.
    """
    conn.execute(
        """
        INSERT INTO budgets (agent, period, unit, amount, created_at, updated_at)
        VALUES (:agent, :period, :unit, :amount, :now, :now)
        ON CONFLICT (ifnull(agent, ''), period, unit) DO UPDATE
           SET amount = :amount, notice = NULL, notice_of = NULL, extra = 0, extra_of = NULL, updated_at = :now
         WHERE amount <> :amount
        """,
        {"agent": agent, "period": period, "unit": unit, "amount": amount, "now": now_ms},
    )
    return conn.changes() > 0


def find(conn: apsw.Connection, agent: str | None, period: PeriodName, unit: UnitName) -> Budget | None:
    """The budget, or None."""
    found = rows(
        conn,
        _COLUMNS + " WHERE agent IS :agent AND period = :period AND unit = :unit",
        {"agent": agent, "period": period, "unit": unit},
    )
    return Budget(*found[0]) if found else None


def give(conn: apsw.Connection, budget_id: int, *, amount: int, start_ms: int, now_ms: int) -> bool:
    """Give the budget its amount once more, in the period that begins at *start_ms*. False: it is gone, or changed.

    Args:
        amount: of the budget, as the approver saw it.
    """
    conn.execute(
        """
        UPDATE budgets
           SET extra = amount + iif(extra_of = :start, extra, 0), extra_of = :start, notice = NULL, notice_of = NULL,
               updated_at = :now
         WHERE id = :id AND amount = :amount
        """,
        {"id": budget_id, "amount": amount, "start": start_ms, "now": now_ms},
    )
    return conn.changes() > 0


def remove(conn: apsw.Connection, agent: str | None, period: PeriodName, unit: UnitName) -> bool:
    """Delete the budget. False: there is none."""
    conn.execute(
        "DELETE FROM budgets WHERE agent IS :agent AND period = :period AND unit = :unit",
        {"agent": agent, "period": period, "unit": unit},
    )
    return conn.changes() > 0


def mark(conn: apsw.Connection, budget_id: int, notice: Notice, *, period_start_ms: int, now_ms: int) -> bool:
    """Note that this notice is given in this period. False: it was given before, or a later one was.

    The caller gives the notice in the same transaction, so each is given once.
    """
    conn.execute(
        """
        UPDATE budgets
           SET notice = :notice, notice_of = :start, updated_at = :now
         WHERE id = :id
           AND (notice_of IS NULL OR notice_of < :start
                OR (notice_of = :start AND notice = 'nearly' AND :notice = 'used_up'))
        """,
        {"id": budget_id, "notice": notice, "start": period_start_ms, "now": now_ms},
    )
    return conn.changes() > 0
