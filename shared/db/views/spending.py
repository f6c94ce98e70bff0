"""What the API shows of usage and budgets. Money is in micro-dollars, and instants are in ms UTC."""

import apsw
from typing_extensions import TypedDict

from shared.core import periods
from shared.core.periods import PeriodName
from shared.db.engine.connection import rows
from shared.db.engine.named_rows import NEWEST, named
from shared.db.spending import budgets, usage
from shared.db.spending.budgets import Budget, UnitName
from shared.db.spending.usage import PaidBy


class UsageView(TypedDict):
    """What one turn took from one model.

    *input* has no token of the cache; *cost*: null where no price is known; *paidBy*: a subscription, or an API key.
    """

    id: int
    turn: str
    agent: str
    session: str
    model: str
    paidBy: PaidBy
    requests: int
    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    cost: int | None
    createdAt: int
    updatedAt: int


class UsageTotalView(TypedDict):
    """What the turns of one agent took from one model; *turns* is their number.

    *cost* is null where no price is known for any of it. *unpriced*: the tokens without a known price.
    """

    agent: str
    model: str
    paidBy: PaidBy
    turns: int
    requests: int
    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    cost: int | None
    unpriced: int


class BudgetView(TypedDict):
    """A budget, and what is spent of it now.

    *agent*: null: all agents together. *amount*, *extra* and *spent*: micro-dollars, or tokens. *extra*: what an owner
    gave beyond the amount, for the present day or month (*since* until *until*). *unpriced*: tokens of it that an API
    key paid and whose price is not known.
    """

    agent: str | None
    period: PeriodName
    unit: UnitName
    amount: int
    extra: int
    spent: int
    unpriced: int
    since: int
    until: int


USAGE = """
    SELECT id, turn, agent, session, model, paid_by, requests, input, output, cache_read, cache_write, cost,
           created_at, updated_at
      FROM usage
     WHERE id < :before AND (:agent IS NULL OR agent = :agent) AND (:session IS NULL OR session = :session)
     ORDER BY id DESC
     LIMIT :limit
"""

TOTALS = """
    SELECT agent, model, paid_by, count(DISTINCT turn), sum(requests), sum(input), sum(output), sum(cache_read),
           sum(cache_write), sum(cost),
           sum(iif(cost IS NULL, input + output + cache_read + cache_write, 0))
      FROM usage
     WHERE created_at >= :since AND created_at < :until AND (:agent IS NULL OR agent = :agent)
     GROUP BY agent, model, paid_by
     ORDER BY agent, model, paid_by
"""


def turns(
    conn: apsw.Connection,
    *,
    agent: str | None = None,
    session: str | None = None,
    before: int = NEWEST,
    limit: int,
) -> list[UsageView]:
    """What each turn used, newest first."""
    given = {"agent": agent, "session": session, "before": before, "limit": limit}
    return named(UsageView, rows(conn, USAGE, given))


def totals(
    conn: apsw.Connection, *, agent: str | None = None, since_ms: int, until_ms: int = NEWEST
) -> list[UsageTotalView]:
    """What all turns used whose first request lies between the two instants, by agent and model."""
    return named(UsageTotalView, rows(conn, TOTALS, {"agent": agent, "since": since_ms, "until": until_ms}))


def all_budgets(conn: apsw.Connection, timezone: str, *, agent: str | None = None, now_ms: int) -> list[BudgetView]:
    """All budgets with what is spent of them, those of all agents together first; with *agent*, only its own."""
    return [_shown(conn, each, timezone, now_ms) for each in budgets.every(conn, agent)]


def _shown(conn: apsw.Connection, budget: Budget, timezone: str, now_ms: int) -> BudgetView:
    period = periods.containing(budget.period, now_ms, timezone)
    spent = usage.spent(conn, budget.agent, since_ms=period.start_ms)
    return {
        "agent": budget.agent,
        "period": budget.period,
        "unit": budget.unit,
        "amount": budget.amount,
        "extra": budget.limit(period.start_ms) - budget.amount,
        "spent": spent.money if budget.unit == "money" else spent.tokens,
        "unpriced": spent.unpriced,
        "since": period.start_ms,
        "until": period.end_ms,
    }
