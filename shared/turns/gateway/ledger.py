"""Writes what requests used, and says whether another one may be made.

A budget is looked at before each request. A request that is under way may go past it, by its own cost. What is spent is
summed up from the rows once, and kept up to date in memory: dispatch is the only process that writes usage.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import apsw

from shared.conversation.access import budget_requests, people
from shared.conversation.access.budget_requests import terms, used_up, whose
from shared.core.time import periods
from shared.core.time.periods import Period
from shared.db.access import user_roles, users
from shared.db.queue import events
from shared.db.roster import chats
from shared.db.spending import budgets, usage
from shared.db.spending.budgets import Budget, Notice
from shared.db.spending.usage import PaidBy, Spent, Tokens, TurnName
from shared.queue import notices
from shared.turns.gateway.tokens import Refusal
from shared.turns.gateway.upstreams import GatewaySettings

NEARLY_PERCENT = 80


class RunsWork(Protocol):
    """The writer of a function."""

    def run(self, work: Callable[[apsw.Connection], Any], *, durable: bool = True) -> Awaitable[Any]:
        """Do *work* in a transaction."""


class Ledger:
    """What agents have spent, and what they may.

    Args:
        on_notice: called when an owner has been told something, so that it is sent.
    """

    def __init__(
        self,
        reader: apsw.Connection,
        writer: RunsWork,
        models: GatewaySettings,
        timezone: str,
        on_notice: Callable[[], object],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._models = models
        self._timezone = timezone
        self._on_notice = on_notice
        self._sums: dict[tuple[str | None, str], tuple[int, Spent]] = {}

    async def admit(self, agent: str, model: str, paid_by: PaidBy, *, now_ms: int) -> Refusal | None:
        """Why the agent may not use the model now; None: it may."""
        for budget in budgets.that_bind(self._reader, agent):
            if budget.unit == "money" and paid_by == "plan":
                continue
            if budget.unit == "money" and self._models.price(model) is None:
                return Refusal("unpriced", _unpriced(budget, model))
            period = periods.containing(budget.period, now_ms, self._timezone)
            if self._spent(budget, period) >= budget.limit(period.start_ms):
                await self._tell([(budget, "used_up", period)], now_ms)
                return Refusal("budget", used_up(budget, period, self._timezone), period.end_ms)
        return None

    async def record(self, name: TurnName, model: str, paid_by: PaidBy, tokens: Tokens, *, now_ms: int) -> None:
        """Write what a request used, and tell an owner where a budget is nearly used up, or wholly."""
        price = self._models.price(model) if paid_by == "key" else None
        cost = price.cost(tokens) if price is not None else None
        self._add(name.agent, Spent(cost or 0, tokens.total))
        await self._writer.run(
            partial(usage.add, name=name, model=model, paid_by=paid_by, tokens=tokens, cost=cost, now_ms=now_ms),
            durable=False,
        )
        due = [
            (budget, notice, period)
            for budget in budgets.that_bind(self._reader, name.agent)
            for period in [periods.containing(budget.period, now_ms, self._timezone)]
            if (notice := _due(budget, self._spent(budget, period), period)) is not None
        ]
        await self._tell(due, now_ms)

    async def _tell(self, due: list[tuple[Budget, Notice, Period]], now_ms: int) -> None:
        due = [each for each in due if not _is_told(*each)]
        if not due:
            return

        def work(conn: apsw.Connection) -> None:
            for budget, notice, period in due:
                if budgets.mark(conn, budget.id, notice, period_start_ms=period.start_ms, now_ms=now_ms):
                    _give(conn, budget, notice, period, self._timezone, now_ms=now_ms)

        await self._writer.run(work)
        self._on_notice()

    def _spent(self, budget: Budget, period: Period) -> int:
        key = (budget.agent, budget.period)
        start_ms, spent = self._sums.get(key, (None, Spent()))
        if start_ms != period.start_ms:
            spent = usage.spent(self._reader, budget.agent, since_ms=period.start_ms)
            self._sums[key] = (period.start_ms, spent)
        return spent.money if budget.unit == "money" else spent.tokens

    def _add(self, agent: str, used: Spent) -> None:
        for key, (start_ms, spent) in self._sums.items():
            if key[0] in (None, agent):
                self._sums[key] = (start_ms, Spent(spent.money + used.money, spent.tokens + used.tokens))


def spares(reader: apsw.Connection, agent: str, timezone: str, *, now_ms: int) -> str | None:
    """Why the agent does nothing that nobody asked for: a budget is nearly used up. None: no budget is."""
    for budget in budgets.that_bind(reader, agent):
        period = periods.containing(budget.period, now_ms, timezone)
        spent = usage.spent(reader, budget.agent, since_ms=period.start_ms)
        if _due(budget, spent.money if budget.unit == "money" else spent.tokens, period) is not None:
            until = budget_requests.instant(period.end_ms, timezone)
            return f"{_nearly(budget)} Heartbeats do not run until {until} ({timezone})."
    return None


def _due(budget: Budget, spent: int, period: Period) -> Notice | None:
    limit = budget.limit(period.start_ms)
    if spent >= limit:
        return "used_up"
    return "nearly" if 100 * spent >= NEARLY_PERCENT * limit else None


def _is_told(budget: Budget, notice: Notice, period: Period) -> bool:
    return budget.notice_of == period.start_ms and budget.notice in (notice, "used_up")


def _give(conn: apsw.Connection, budget: Budget, notice: Notice, period: Period, timezone: str, *, now_ms: int) -> None:
    """Write the event; tell the first approver whom we can reach, or ask an owner."""
    facts: events.EventData = {"period": budget.period, "unit": budget.unit, "amount": budget.amount}
    events.append(conn, f"budget_{notice}", now_ms=now_ms, agent=budget.agent, data=facts)
    if notice == "used_up" and budget.amount:  # a budget of nothing stops an agent on purpose
        budget_requests.ask(conn, budget, period, timezone, now_ms=now_ms)
        return
    text = _nearly(budget) if notice == "nearly" else f"{used_up(budget, period, timezone)} {_to_go_on(budget)}"
    for user in people.approvers(conn, budget.agent, channel=_main_channel(conn)):
        chat_id = people.direct_chat(conn, user, now_ms=now_ms)
        chat = chats.get(conn, chat_id) if chat_id is not None else None
        if chat is not None:
            notices.write(conn, chat, text, now_ms=now_ms)
            return


def _main_channel(conn: apsw.Connection) -> str:
    """The channel of the first owner: approvers there are told first."""
    owners = user_roles.owners(conn)
    owner = users.get(conn, owners[0]) if owners else None
    return owner.channel if owner is not None else ""


def _nearly(budget: Budget) -> str:
    return f"{NEARLY_PERCENT} % of the budget {whose(budget)} ({terms(budget)}) is used."


def _to_go_on(budget: Budget) -> str:
    option = "" if budget.agent is None else f" --agent {budget.agent}"
    unit = "--dollars" if budget.unit == "money" else "--tokens"
    return (
        f"Until then model requests that count against it are refused. To go on, raise it: "
        f"emulator budgets set {budget.period} {unit} N{option}"
    )


def _unpriced(budget: Budget, model: str) -> str:
    return (
        f"No price is known for the model {model!r}, so the budget {whose(budget)} ({terms(budget)}) can't hold: set "
        f"POSTROOM_MODEL_PRICES, or a budget in tokens instead"
    )
