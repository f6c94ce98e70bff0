"""Asks an owner what is to happen when a budget is used up, and says in words what a budget is.

::

    ask ──> approvals ──show──> a card to an owner ──> shared.conversation.inbound.decisions ──yes──> give
"""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import apsw

from shared.conversation.access import requests
from shared.core.errors import WrongState
from shared.core.time.periods import Period
from shared.db.access import approvals
from shared.db.access.approvals import Approval, NewApproval
from shared.db.roster import agent_pauses
from shared.db.spending import budgets
from shared.db.spending.budgets import Budget, UnitName

KIND = "budget"
_MICRO = 1_000_000


def ask(conn: apsw.Connection, budget: Budget, period: Period, timezone: str, *, now_ms: int) -> Approval:
    """Ask an owner whether the budget, which is used up, gets its amount once more; until the period ends."""
    unit, name = budget.unit, budget.period
    until = instant(period.end_ms, timezone)
    new = NewApproval(
        KIND,
        {"budget": budget.id, "amount": budget.amount, "start": period.start_ms, "is_global": True},
        subject=json.dumps([budget.id, period.start_ms, budget.limit(period.start_ms)]),
        agent=budget.agent,
        title=f"{used_up(budget, period, timezone)} What waits continues then, or when you give more for this {name}.",
        options=(f"Give {amount(budget.amount, unit)} more", f"Leave it until {until}"),
    )
    approval, is_new = approvals.request(conn, new, expires_at=period.end_ms, now_ms=now_ms)
    if is_new:
        requests.show(conn, approval, now_ms=now_ms)
    return approval


def give(conn: apsw.Connection, approved: Approval, *, now_ms: int) -> int:
    """Do what was approved; how many agents go on.

    Raises:
        WrongState: the budget was changed or deleted since.
    """
    payload = approved.payload
    if not budgets.give(conn, payload["budget"], amount=payload["amount"], start_ms=payload["start"], now_ms=now_ms):
        raise WrongState("the budget was changed since: `emulator budgets list` shows it")
    return len(agent_pauses.try_all(conn, "budget", now_ms=now_ms))


def whose(budget: Budget) -> str:
    """``of agent coder``, or ``of all agents``."""
    return "of all agents" if budget.agent is None else f"of agent {budget.agent}"


def amount(of: int, unit: UnitName) -> str:
    """``$5.00``, or ``2000 tokens``."""
    return f"{of} tokens" if unit == "tokens" else f"${of / _MICRO:.2f}"


def terms(budget: Budget) -> str:
    """``$5.00 a day``."""
    return f"{amount(budget.amount, budget.unit)} a {budget.period}"


def used_up(budget: Budget, period: Period, timezone: str) -> str:
    """A sentence: which budget, and until when."""
    extra = budget.limit(period.start_ms) - budget.amount
    more = f" and {amount(extra, budget.unit)} more this {budget.period}" if extra else ""
    until = instant(period.end_ms, timezone)
    return f"The budget {whose(budget)} ({terms(budget)}{more}) is used up until {until} ({timezone})."


def instant(at_ms: int, timezone: str) -> str:
    """``2026-11-23 00:00``, in the zone."""
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M")
