"""What the API shows of usage and budgets. Money is in micro-dollars, and instants are in ms UTC."""

from datetime import datetime
from zoneinfo import ZoneInfo

import apsw
from typing_extensions import TypedDict

from shared.core import content, hops
from shared.core.time import periods
from shared.core.time.periods import PeriodName
from shared.db.engine.connection import rows
from shared.db.engine.named_rows import NEWEST, named
from shared.db.spending import budgets, usage
from shared.db.spending.budgets import Budget, UnitName
from shared.db.spending.settled_usage import SettledUsage
from shared.db.spending.usage import PaidBy, Spent


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


class MessageUsage(TypedDict):
    """What one turn over a message took from one model.

    *messages*: how many messages the turn answered together. *cost*: in micro-dollars; null where no price is known.
    """

    turn: str
    model: str
    paidBy: PaidBy
    requests: int
    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    cost: int | None
    messages: int


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


class UsageDayView(UsageTotalView):
    """The same of one day, such as ``2026-11-22``, in the time zone of the settings."""

    day: str


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

# A session has few turns; of those since the message came, each names its messages.
OF_MESSAGE = """
    SELECT u.turn, u.model, u.paid_by, u.requests, u.input, u.output, u.cache_read, u.cache_write, u.cost,
           json_array_length(u.messages)
      FROM messages m
      JOIN sessions s ON s.id = m.session_id
      JOIN usage u ON u.session = s.session_id AND u.created_at >= m.created_at
     WHERE m.id = :row AND EXISTS (SELECT 1 FROM json_each(u.messages) WHERE value = m.message_id)
     ORDER BY u.id
     LIMIT 1000
"""

# A turn has one row of a model and payer.
TOTALS = """
    SELECT agent, model, paid_by, count(*), sum(requests), sum(input), sum(output), sum(cache_read),
           sum(cache_write), sum(cost),
           sum(iif(cost IS NULL, input + output + cache_read + cache_write, 0))
      FROM usage
     WHERE created_at >= :since AND created_at < :until AND (:agent IS NULL OR agent = :agent)
     GROUP BY agent, model, paid_by
     ORDER BY agent, model, paid_by
"""


class ChainUsage(TypedDict):
    """What agents did because of one message, or another *origin* of the chain.

    *messages*: that agents sent each other. *turns*, *tokens* and *cost* (micro-dollars; null where no price is known)
    are of all of them together. *endedAt*: when the origin was told that a limit was reached, in ms UTC.
    """

    origin: str
    messages: int
    turns: int
    tokens: int
    cost: int | None
    endedAt: int | None


OF_CHAIN = """
    SELECT c.origin, c.sent, count(DISTINCT u.turn), ifnull(sum(u.input + u.output + u.cache_read + u.cache_write), 0),
           sum(u.cost), c.ended_at
      FROM chains c
      LEFT JOIN usage u ON u.origin = c.origin AND u.origin IS NOT NULL
     WHERE c.origin = :origin
     GROUP BY c.origin
"""


def of_chain(conn: apsw.Connection, row_id: int) -> ChainUsage | None:
    """What the chain of the message in this row has cost; None: agents wrote nothing because of it, or long ago."""
    found = rows(conn, "SELECT message_id, content FROM messages WHERE id = :row", {"row": row_id})
    if not found:
        return None
    ((message_id, kept),) = found
    origin = hops.origin(content.readable(kept), message_id)
    return next(iter(named(ChainUsage, rows(conn, OF_CHAIN, {"origin": origin}))), None)


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


def of_message(conn: apsw.Connection, row_id: int) -> list[MessageUsage]:
    """What the turns over a message took, oldest first; empty where they used no model, or it is long ago."""
    return named(MessageUsage, rows(conn, OF_MESSAGE, {"row": row_id}))


def totals(
    conn: apsw.Connection, *, agent: str | None = None, since_ms: int, until_ms: int = NEWEST
) -> list[UsageTotalView]:
    """What all turns used whose first request lies between the two instants, by agent and model."""
    return named(UsageTotalView, rows(conn, TOTALS, {"agent": agent, "since": since_ms, "until": until_ms}))


def totals_until_now(
    conn: apsw.Connection, settled: SettledUsage, *, agent: str | None = None, since_ms: int, now_ms: int
) -> list[UsageTotalView]:
    """As ``totals``, up to now: quickly, however many turns there were."""

    def read(from_ms: int, end_ms: int) -> list[UsageTotalView]:
        return totals(conn, agent=agent, since_ms=from_ms, until_ms=end_ms)

    found: dict[tuple[str, str, str], UsageTotalView] = {}
    for part in settled.parts(("totals", agent), since_ms, now_ms, read):
        for each in part:
            key = (each["agent"], each["model"], each["paidBy"])
            found[key] = _sum(found[key], each) if key in found else each
    return [found[key] for key in sorted(found)]


# Every time zone's days begin at a quarter of an hour.
QUARTERS = """
    SELECT created_at / 900000 * 900000, agent, model, paid_by, count(*), sum(requests), sum(input), sum(output),
           sum(cache_read), sum(cache_write), sum(cost),
           sum(iif(cost IS NULL, input + output + cache_read + cache_write, 0))
      FROM usage
     WHERE created_at >= :since AND created_at < :until AND (:agent IS NULL OR agent = :agent)
     GROUP BY created_at / 900000, agent, model, paid_by
     ORDER BY 1, 2, 3, 4
"""


def days(
    conn: apsw.Connection, timezone: str, *, agent: str | None = None, since_ms: int, until_ms: int = NEWEST
) -> list[UsageDayView]:
    """As ``totals``, for each day on which the first request of a turn was made, newest day first."""
    zone = ZoneInfo(timezone)
    found: dict[tuple[str, str, str, str], UsageDayView] = {}
    for start_ms, *row in rows(conn, QUARTERS, {"agent": agent, "since": since_ms, "until": until_ms}):
        (part,) = named(UsageTotalView, [tuple(row)])
        day = datetime.fromtimestamp(start_ms / 1000, zone).date().isoformat()
        key = (day, part["agent"], part["model"], part["paidBy"])
        found[key] = {**(_sum(found[key], part) if key in found else part), "day": day}
    return sorted(found.values(), key=lambda each: each["day"], reverse=True)


def _sum(one: UsageTotalView, other: UsageTotalView) -> UsageTotalView:
    costs = [each["cost"] for each in (one, other) if each["cost"] is not None]
    return {
        **one,
        "turns": one["turns"] + other["turns"],
        "requests": one["requests"] + other["requests"],
        "input": one["input"] + other["input"],
        "output": one["output"] + other["output"],
        "cacheRead": one["cacheRead"] + other["cacheRead"],
        "cacheWrite": one["cacheWrite"] + other["cacheWrite"],
        "cost": sum(costs) if costs else None,
        "unpriced": one["unpriced"] + other["unpriced"],
    }


def all_budgets(
    conn: apsw.Connection,
    timezone: str,
    *,
    agent: str | None = None,
    now_ms: int,
    settled: SettledUsage | None = None,
) -> list[BudgetView]:
    """All budgets with what is spent of them, those of all agents together first; with *agent*, only its own."""
    settled = settled or SettledUsage()
    return [_shown(conn, each, timezone, now_ms, settled) for each in budgets.every(conn, agent)]


def _shown(conn: apsw.Connection, budget: Budget, timezone: str, now_ms: int, settled: SettledUsage) -> BudgetView:
    period = periods.containing(budget.period, now_ms, timezone)

    def read(from_ms: int, end_ms: int) -> Spent:
        return usage.spent(conn, budget.agent, since_ms=from_ms, until_ms=end_ms)

    parts = settled.parts(("spent", budget.agent), period.start_ms, now_ms, read)
    spent = Spent(*(sum(each) for each in zip(*parts, strict=True)))
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
