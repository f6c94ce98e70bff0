"""``emulator usage`` and ``emulator budgets``: what agents take from models, and the limits on it."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, TextTable, in_dollars, local_time, result

budgets_app = group("Budgets: what agents may spend a day or a month, in money or tokens.")

Agent = Annotated[str | None, typer.Option(help="Only this agent; without it, all agents together.")]
Period = Annotated[Literal["day", "month"], typer.Argument(metavar="PERIOD", help="day or month")]
_MICRO = 1_000_000
_TOKENS = ("input", "output", "cacheRead", "cacheWrite")
_COLUMNS = ("agent", "model", "paid by", "input", "output", "cache read", "cache write", "cost")


def show_usage(
    api: RestClient,
    agent: Annotated[str | None, typer.Argument(metavar="[AGENT]", help="Only of this agent.")] = None,
    turns: Annotated[bool, typer.Option("--turns", help="One line for each turn, newest first.")] = False,
    days: Annotated[bool, typer.Option("--days", help="The sums of each day of this month, newest first.")] = False,
    limit: Limit = 20,
) -> CommandResult:
    """Show the tokens and the money that agents used: this month's sums, or --days, or --turns."""
    if days:
        if turns:
            raise errors.UsageError("use either --days or --turns")
        found = api.get("usage", "days", agent=agent)
        rows = [(each["day"], each["turns"], *_usage(each)) for each in found]
        return result(found, TextTable(("day", "turns", *_COLUMNS), rows, "No turn has used a model this month."))
    if turns:
        found = api.get("usage", agent=agent, limit=limit)
        rows = [(local_time(each["createdAt"]), each["turn"], *_usage(each)) for each in found]
        return result(found, TextTable(("since", "turn", *_COLUMNS), rows, "No turn has used a model yet."))
    found = api.get("usage", "totals", agent=agent)
    rows = [(each["turns"], *_usage(each)) for each in found]
    table = TextTable(("turns", *_COLUMNS), rows, "No turn has used a model this month.")
    unpriced = sum(each["unpriced"] for each in found if each["paidBy"] == "key")
    note = f"No price is known for {unpriced} of these tokens: set POSTROOM_MODEL_PRICES (docs/agents/money.md)."
    return result(found, table, *([note] if unpriced else []))


@command(budgets_app, "list")
def list_budgets(
    api: RestClient, agent: Annotated[str | None, typer.Argument(metavar="[AGENT]", help="Only of this agent.")] = None
) -> CommandResult:
    """List the budgets and what is spent of each."""
    found = api.get("budgets", agent=agent)
    rows = [
        (_whose(each["agent"]), each["period"], _limit(each), _amount(each, "spent"), _percent(each)) for each in found
    ]
    empty = f"There is no budget. To set one: {api.command_line('budgets set day --dollars 5')}"
    return result(found, TextTable(("whose", "a", "limit", "spent", ""), rows, empty))


@command(budgets_app, "set")
def set_budget(
    api: RestClient,
    period: Period,
    dollars: Annotated[str | None, typer.Option(help="The limit in dollars, such as 5 or 0.50.")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="The limit in tokens of all kinds.")] = None,
    agent: Agent = None,
) -> CommandResult:
    """Set what an agent, or all agents together, may spend a day or a month. A new limit counts at once."""
    if (dollars is None) == (tokens is None):
        raise errors.UsageError("name the limit by either --dollars or --tokens")
    unit, amount = ("tokens", tokens) if dollars is None else ("money", _micro_dollars(dollars))
    saved = api.put(*_path(agent), "budgets", period, unit, body={"amount": amount})
    budget = saved["budget"]
    verb = "are" if unit == "tokens" else "is"
    spent = f"{_amount(budget, 'spent')} {verb} spent ({_percent(budget)})"
    return result(saved, f"{_whose(agent)}: at most {_amount(budget, 'amount')} a {period}. {spent}.")


@command(budgets_app, "delete")
def delete_budget(
    api: RestClient,
    period: Period,
    unit: Annotated[Literal["money", "tokens"], typer.Argument(metavar="UNIT", help="money or tokens")],
    agent: Agent = None,
) -> CommandResult:
    """Delete a budget; the others stay."""
    gone = api.delete(*_path(agent), "budgets", period, unit)
    return result(gone, f"{_whose(agent)}: no limit in {unit} a {period} any more.")


def _path(agent: str | None) -> tuple[str, ...]:
    return () if agent is None else ("agents", agent)


def _whose(agent: str | None) -> str:
    return "all agents" if agent is None else agent


def _usage(each: dict[str, Any]) -> tuple[Any, ...]:
    return (each["agent"], each["model"], each["paidBy"], *(each[kind] for kind in _TOKENS), in_dollars(each["cost"]))


def _limit(budget: dict[str, Any]) -> str:
    extra = f" + {_amount(budget, 'extra')}" if budget["extra"] else ""
    return f"{_amount(budget, 'amount')}{extra}"


def _amount(budget: dict[str, Any], field: str) -> str:
    return in_dollars(budget[field]) if budget["unit"] == "money" else f"{budget[field]} tokens"


def _percent(budget: dict[str, Any]) -> str:
    limit = budget["amount"] + budget["extra"]
    return f"{100 * budget['spent'] // limit} %" if limit else "100 %"


def _micro_dollars(text: str) -> int:
    try:
        micro = Decimal(text) * _MICRO
    except InvalidOperation:
        micro = Decimal("NaN")
    if not micro.is_finite() or micro < 0 or micro != micro.to_integral_value():
        raise errors.InvalidInput(f"--dollars {text!r} is not an amount such as 5 or 0.50")
    return int(micro)
