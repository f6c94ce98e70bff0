"""Usage: what turns took from models, in tokens and money. Budgets: the limits on it."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.conversation.inbound import undecided
from shared.core.errors import NotFound
from shared.core.time import clock, periods
from shared.core.time.periods import PeriodName
from shared.db.engine import named_rows
from shared.db.roster import agent_pauses
from shared.db.spending import budgets
from shared.db.spending.budgets import UnitName
from shared.db.views import spending
from shared.db.views.spending import BudgetView, UsageDayView, UsageTotalView, UsageView
from shared.rest.http.common import OK, Ok, PageQuery
from shared.rest.http.endpoint import Body, Query, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent

_LARGEST = 10**15  # a billion dollars in micro-dollars
_NO_BUDGET = {404: "there is no such budget"}
_UNKNOWN_PERIOD = {404: "the period is neither day nor month, or the unit neither money nor tokens"}
_UNKNOWN_AGENT = {404: "there is no such agent, period or unit"}


class SavedBudget(TypedDict):
    """The budget after the change."""

    ok: Literal[True]
    budget: BudgetView


class UsageQuery(PageQuery):
    """*agent*, *session*: only theirs. *before*: only rows with a lower id."""

    agent: str | None = Field(default=None, max_length=64)
    session: str | None = Field(default=None, max_length=64)


class UsageTotalsQuery(Query):
    """*since*, *until*: instants in ms UTC; without *since*, the present month. *agent*: only its turns."""

    agent: str | None = Field(default=None, max_length=64)
    since: int | None = Field(default=None, ge=0, le=named_rows.NEWEST)
    until: int = Field(default=named_rows.NEWEST, ge=0, le=named_rows.NEWEST)


class BudgetsQuery(Query):
    """*agent*: only its own."""

    agent: str | None = Field(default=None, max_length=64)


class BudgetBody(Body):
    """*amount*: micro-dollars (a dollar has 1 000 000) or tokens; 0 stops all requests that count against it."""

    amount: int = Field(ge=0, le=_LARGEST)


@endpoint("GET", "/api/usage")
async def get_usage(service: Service, *, query: UsageQuery) -> list[UsageView]:
    """List what each turn took from models, newest first: one row a turn, or one for each model that it used."""
    return spending.turns(
        service.reader, agent=query.agent, session=query.session, before=query.before, limit=query.limit
    )


@endpoint("GET", "/api/usage/totals")
async def get_usage_totals(service: Service, *, query: UsageTotalsQuery) -> list[UsageTotalView]:
    """Sum up the usage of a time, by agent, model and payment."""
    since_ms, now_ms = query.since, service.now_ms()
    if since_ms is None:
        since_ms = periods.containing("month", now_ms, service.settings.timezone).start_ms
    if query.until != named_rows.NEWEST:
        return spending.totals(service.reader, agent=query.agent, since_ms=since_ms, until_ms=query.until)
    return spending.totals_until_now(
        service.reader, service.settled_usage, agent=query.agent, since_ms=since_ms, now_ms=now_ms
    )


@endpoint("GET", "/api/usage/days")
async def get_usage_days(service: Service, *, query: UsageTotalsQuery) -> list[UsageDayView]:
    """Sum up the usage of a time, by day, agent, model and payment, newest day first."""
    since_ms, zone = query.since, service.settings.timezone
    if since_ms is None:
        since_ms = periods.containing("month", service.now_ms(), zone).start_ms
    return spending.days(service.reader, zone, agent=query.agent, since_ms=since_ms, until_ms=query.until)


@endpoint("GET", "/api/budgets")
async def get_budgets(service: Service, *, query: BudgetsQuery) -> list[BudgetView]:
    """List the budgets and what is spent of each, those of all agents together first."""
    return spending.all_budgets(
        service.reader,
        service.settings.timezone,
        agent=query.agent,
        now_ms=service.now_ms(),
        settled=service.settled_usage,
    )


@endpoint("PUT", "/api/budgets/{period}/{unit}", _UNKNOWN_PERIOD)
async def put_budget(service: Service, *, period: str, unit: str, body: BudgetBody) -> SavedBudget:
    """Limit what all agents together spend a day or a month, in money or tokens."""
    return await _put(service, None, period, unit, body.amount)


@endpoint("PUT", "/api/agents/{id}/budgets/{period}/{unit}", _UNKNOWN_AGENT)
async def put_agent_budget(service: Service, *, id: str, period: str, unit: str, body: BudgetBody) -> SavedBudget:
    """Limit what one agent spends a day or a month, in money or tokens."""
    return await _put(service, id, period, unit, body.amount)


@endpoint("DELETE", "/api/budgets/{period}/{unit}", _NO_BUDGET)
async def delete_budget(service: Service, *, period: str, unit: str) -> Ok:
    """Delete a budget of all agents together; their own budgets stay."""
    return await _delete(service, None, period, unit)


@endpoint("DELETE", "/api/agents/{id}/budgets/{period}/{unit}", {404: "there is no such agent or budget"})
async def delete_agent_budget(service: Service, *, id: str, period: str, unit: str) -> Ok:
    """Delete a budget of one agent; those of all agents together stay."""
    return await _delete(service, id, period, unit)


async def _put(service: Service, agent: str | None, period: str, unit: str, amount: int) -> SavedBudget:
    known_period, known_unit = _known(period, unit)

    def work(conn: apsw.Connection) -> BudgetView:
        now_ms = clock.now_ms()
        if agent is not None:
            known_agent(conn, agent)
        is_changed = budgets.put(conn, agent, known_period, known_unit, amount, now_ms=now_ms)
        saved = budgets.find(conn, agent, known_period, known_unit)
        if is_changed and saved is not None:
            undecided.withdraw_budget(conn, saved.id, "the budget was changed", now_ms=now_ms)
            agent_pauses.try_all(conn, "budget", now_ms=now_ms)
        found = spending.all_budgets(conn, service.settings.timezone, agent=agent, now_ms=now_ms)
        return next(b for b in found if (b["agent"], b["period"], b["unit"]) == (agent, known_period, known_unit))

    return {"ok": True, "budget": await service.change(work, "dispatch")}


async def _delete(service: Service, agent: str | None, period: str, unit: str) -> Ok:
    known_period, known_unit = _known(period, unit)

    def work(conn: apsw.Connection) -> None:
        if agent is not None:
            known_agent(conn, agent)
        gone = budgets.find(conn, agent, known_period, known_unit)
        if gone is not None:
            undecided.withdraw_budget(conn, gone.id, "the budget was deleted", now_ms=clock.now_ms())
        if not budgets.remove(conn, agent, known_period, known_unit):
            whose = "all agents together have" if agent is None else f"agent {agent!r} has"
            raise NotFound(f"{whose} no budget of {unit} a {period}; GET /api/budgets lists them")
        agent_pauses.try_all(conn, "budget", now_ms=clock.now_ms())

    await service.change(work, "dispatch")
    return OK


def _known(period: str, unit: str) -> tuple[PeriodName, UnitName]:
    if period not in ("day", "month"):
        raise NotFound(f"there is no period {period!r}: a budget is for a day or a month")
    if unit not in ("money", "tokens"):
        raise NotFound(f"there is no unit {unit!r}: a budget is in money or in tokens")
    return period, unit  # type: ignore[return-value]


ENDPOINTS = (
    get_usage,
    get_usage_totals,
    get_usage_days,
    get_budgets,
    put_budget,
    delete_budget,
    put_agent_budget,
    delete_agent_budget,
)
