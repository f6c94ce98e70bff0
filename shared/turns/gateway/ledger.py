"""Records what requests used, and decides whether another one may be made.

The budgets are checked before each request. A running request may exceed a budget by its own cost. Other requests wait
while the running ones could use the budget up, so only one exceeds it. The sum of what is spent is read from the rows
once, and then kept in memory: dispatch is the only process that writes usage.

An estimate is written into the turn's row before a request goes out, and is replaced by what it used. So a request that
was running when dispatch died is counted too. The request waits for that write, so the write is done in the event loop,
without waking a thread.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import apsw
import msgspec

from shared.conversation.access import budget_requests, people
from shared.conversation.access.budget_requests import terms, used_up, whose
from shared.core import logs
from shared.core.time import periods
from shared.core.time.periods import Period, PeriodName
from shared.db.access import user_roles, users
from shared.db.queue import events
from shared.db.spending import budgets, usage
from shared.db.spending.budgets import Budget, Notice
from shared.db.spending.usage import PaidBy, Spent, Tokens, TurnName
from shared.turns.gateway.tokens import Refusal
from shared.turns.gateway.upstreams import GatewaySettings

log = logs.get()

NEARLY_PERCENT = 80


class RunsWork(Protocol):
    """The writer of a function."""

    def run(
        self, work: Callable[[apsw.Connection], Any], *, durable: bool = True, alone: bool = False
    ) -> Awaitable[Any]:
        """Do *work* in a transaction."""


class Estimate(NamedTuple):
    """What a request may use, by estimate. *usual*: what is recorded while it runs; *most*: its limit."""

    usual: Tokens
    most: Tokens


class UnderWay(msgspec.Struct, frozen=True, eq=False):
    """A request that may go out, and what is recorded about it."""

    name: TurnName
    model: str
    paid_by: PaidBy
    usual: Tokens
    cost: int | None
    most: Spent


class Ledger:
    """What agents have spent, and what they may.

    Args:
        on_notice: called when there is a response to an owner to send.
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
        self._periods: dict[PeriodName, Period] = {}
        self._under_way: set[UnderWay] = set()
        self._settled = asyncio.Event()

    async def begin(
        self, name: TurnName, model: str, paid_by: PaidBy, estimate: Estimate, *, now_ms: int
    ) -> UnderWay | Refusal:
        """Let a request go out, or say why it may not; it waits while the running ones could use a budget up.

        The caller settles it, or withdraws it.
        """
        most = Spent(self._cost(model, paid_by, estimate.most) or 0, estimate.most.total)
        while (refusal := await self.admit(name.agent, model, paid_by, now_ms=now_ms)) is None:
            if not self._is_tight(name.agent, paid_by, most, now_ms):
                break
            await self._settled.wait()
        if refusal is not None:
            return refusal
        found = UnderWay(name, model, paid_by, estimate.usual, self._cost(model, paid_by, estimate.usual), most)
        self._under_way.add(found)
        try:
            await self._write(usage.add, found, found.usual, found.cost, now_ms=now_ms)
        except apsw.Error:  # nothing of it was written
            self._end(found)
            raise
        except BaseException:
            await self.write_used(found, None, now_ms=now_ms)
            raise
        return found

    async def write_used(self, request: UnderWay, used: Tokens | None, *, now_ms: int) -> None:
        """Settle the request, or withdraw it if it used nothing; a cancellation does not interrupt this.

        An error is logged: the model's answer is there, and a locked database must not take it away.
        """
        await asyncio.shield(self._write_used(request, used, now_ms))

    async def _write_used(self, request: UnderWay, used: Tokens | None, now_ms: int) -> None:
        try:
            if used is None:
                await self.withdraw(request, now_ms=now_ms)
            else:
                await self.settle(request, used, now_ms=now_ms)
        except Exception:
            log.exception("gateway.usage_not_written", turn=request.name.turn)

    async def settle(self, request: UnderWay, tokens: Tokens, *, now_ms: int) -> None:
        """The request used these tokens."""
        cost = self._cost(request.model, request.paid_by, tokens)
        self._end(request)
        self._add(request.name.agent, Spent(cost or 0, tokens.total))
        beyond = Tokens(*(used - usual for used, usual in zip(tokens, request.usual, strict=True)))
        more = None if cost is None or request.cost is None else cost - request.cost
        await self._write(usage.correct, request, beyond, more, now_ms=now_ms)
        await self._notice(request.name.agent, now_ms)

    async def withdraw(self, request: UnderWay, *, now_ms: int) -> None:
        """The request used nothing: it was not sent, or refused."""
        self._end(request)
        await self._write(usage.withdraw, request, request.usual, request.cost, now_ms=now_ms)

    def _end(self, request: UnderWay) -> None:
        self._under_way.discard(request)
        self._settled.set()
        self._settled = asyncio.Event()

    def _write(
        self, work: Callable[..., None], request: UnderWay, tokens: Tokens, cost: int | None, *, now_ms: int
    ) -> Awaitable[Any]:
        known = {"name": request.name, "model": request.model, "paid_by": request.paid_by}
        done = partial(work, **known, tokens=tokens, cost=cost, now_ms=now_ms)
        return self._writer.run(done, durable=False, alone=True)

    def _cost(self, model: str, paid_by: PaidBy, tokens: Tokens) -> int | None:
        price = self._models.price(model) if paid_by == "key" else None
        return price.cost(tokens) if price is not None else None

    def _is_tight(self, agent: str, paid_by: PaidBy, most: Spent, now_ms: int) -> bool:
        """Whether this request, together with the running ones, could exceed a budget."""
        if not self._under_way:
            return False
        for budget in budgets.that_bind(self._reader, agent):
            if budget.unit == "money" and paid_by == "plan":
                continue
            others = [each for each in self._under_way if budget.agent in (None, each.name.agent)]
            if not others:
                continue
            all_together = sum(_of(budget, each.most) for each in others) + _of(budget, most)
            period = self._period(budget, now_ms)
            if self._spent(budget, period) + all_together > budget.limit(period.start_ms):
                return True
        return False

    async def admit(self, agent: str, model: str, paid_by: PaidBy, *, now_ms: int) -> Refusal | None:
        """Why the agent may not use the model now; None: it may."""
        for budget in budgets.that_bind(self._reader, agent):
            if budget.unit == "money" and paid_by == "plan":
                continue
            if budget.unit == "money" and self._models.price(model) is None:
                return Refusal("unpriced", _unpriced(budget, model))
            period = self._period(budget, now_ms)
            if self._spent(budget, period) >= budget.limit(period.start_ms):
                await self._tell([(budget, "used_up", period)], now_ms)
                return Refusal("budget", used_up(budget, period, self._timezone), period.end_ms)
        return None

    async def stop(self, agent: str, *, now_ms: int) -> Refusal | None:
        """Why no turn of the agent may begin; an owner is asked where a budget is used up. None: it may."""
        for budget, model in unpriced_under(self._reader, agent):
            if self._models.price(model) is None:
                return Refusal("unpriced", _unpriced(budget, model))
        for budget, period in used_up_by(self._reader, agent, self._timezone, now_ms=now_ms):
            await self._tell([(budget, "used_up", period)], now_ms)
            return Refusal("budget", used_up(budget, period, self._timezone), period.end_ms)
        return None

    async def record(self, name: TurnName, model: str, paid_by: PaidBy, tokens: Tokens, *, now_ms: int) -> None:
        """Write what a program says it used, and tell an owner where a budget is nearly used up, or wholly."""
        cost = self._cost(model, paid_by, tokens)
        self._add(name.agent, Spent(cost or 0, tokens.total))
        await self._writer.run(
            partial(usage.add, name=name, model=model, paid_by=paid_by, tokens=tokens, cost=cost, now_ms=now_ms),
            durable=False,
        )
        await self._notice(name.agent, now_ms)

    async def _notice(self, agent: str, now_ms: int) -> None:
        due = [
            (budget, notice, period)
            for budget in budgets.that_bind(self._reader, agent)
            for period in [self._period(budget, now_ms)]
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

    def _period(self, budget: Budget, now_ms: int) -> Period:
        """The day or month of *now_ms*; usually that of the last request."""
        period = self._periods.get(budget.period)
        if period is None or not period.start_ms <= now_ms < period.end_ms:
            period = self._periods[budget.period] = periods.containing(budget.period, now_ms, self._timezone)
        return period

    def _spent(self, budget: Budget, period: Period) -> int:
        key = (budget.agent, budget.period)
        start_ms, spent = self._sums.get(key, (None, Spent()))
        if start_ms != period.start_ms:
            spent = self._without_estimates(budget.agent, period)
            self._sums[key] = (period.start_ms, spent)
        return _of(budget, spent)

    def _without_estimates(self, agent: str | None, period: Period) -> Spent:
        """The sums of the rows, without the estimates of running requests; those are added when they end."""
        spent = usage.spent(self._reader, agent, since_ms=period.start_ms)
        estimated = [each for each in self._under_way if agent in (None, each.name.agent)]
        money = spent.money - sum(each.cost or 0 for each in estimated)
        return Spent(max(0, money), max(0, spent.tokens - sum(each.usual.total for each in estimated)))

    def _add(self, agent: str, used: Spent) -> None:
        for key, (start_ms, spent) in self._sums.items():
            if key[0] in (None, agent):
                self._sums[key] = (start_ms, Spent(spent.money + used.money, spent.tokens + used.tokens))


def spares(reader: apsw.Connection, agent: str, timezone: str, *, now_ms: int) -> str | None:
    """Why the agent does not act on its own now: a budget is nearly used up. None: no budget is."""
    for budget in budgets.that_bind(reader, agent):
        period = periods.containing(budget.period, now_ms, timezone)
        spent = usage.spent(reader, budget.agent, since_ms=period.start_ms)
        if _due(budget, _of(budget, spent), period) is not None:
            until = budget_requests.instant(period.end_ms, timezone)
            return f"{_nearly(budget)} Heartbeats do not run until {until} ({timezone})."
    return None


def used_up_by(reader: apsw.Connection, agent: str, timezone: str, *, now_ms: int) -> list[tuple[Budget, Period]]:
    """The budgets that are used up, and from which the agent has spent, as the gateway saw or the program said; and one
    of its own that gives nothing.
    """
    found = []
    for budget in budgets.that_bind(reader, agent):
        period = periods.containing(budget.period, now_ms, timezone)
        own = usage.spent(reader, agent, since_ms=period.start_ms)
        together = own if budget.agent is not None else usage.spent(reader, None, since_ms=period.start_ms)
        limit = budget.limit(period.start_ms)
        is_its = _of(budget, own) > 0 or (budget.agent is not None and limit == 0)
        if is_its and _of(budget, together) >= limit:
            found.append((budget, period))
    return found


def unpriced_under(reader: apsw.Connection, agent: str) -> list[tuple[Budget, str]]:
    """The agent's first budget in money, with each model that it used when no price was known: its program said so, or
    the budget was not there yet. Such a use counts as nothing in money.
    """
    first = next((each for each in budgets.that_bind(reader, agent) if each.unit == "money"), None)
    return [(first, model) for model in usage.unpriced(reader, agent)] if first is not None else []


def _of(budget: Budget, spent: Spent) -> int:
    return spent.money if budget.unit == "money" else spent.tokens


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
    approvers = people.approvers(conn, budget.agent, channel=_main_channel(conn))
    people.tell_first(conn, approvers, text, page=("agents", None), now_ms=now_ms)


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
    price = json.dumps({model: {"input": 3, "output": 15}})
    return (
        f"No price is known for the model {model!r}, so the budget {whose(budget)} ({terms(budget)}) can't hold: give "
        f"dispatch its price, in dollars for a million tokens, such as POSTROOM_MODEL_PRICES='{price}', or set a "
        f"budget in tokens instead"
    )
