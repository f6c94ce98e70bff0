"""Judges what the models cost."""

from collections.abc import Iterator
from statistics import median

from shared.conversation.access import health
from shared.core.time import periods
from spark_jobs.report.facts import Facts, Row, by, total
from spark_jobs.report.judgement.concern import Concern, Level, of_health
from spark_jobs.report.words import MICRO, argument, day, dollars, name, plural

LEAST_JUMP = MICRO
"""In micro-dollars a day."""
LEAST_DAYS = 3


def used_up_budgets(facts: Facts) -> Iterator[Concern]:
    """Budgets that were found used up, in a day or a month that was not over at the mart's position."""
    for row in facts.whole.get("budgets", ()):
        period, start_ms = row["period"], row["notice_of"]
        if row["notice"] == "used_up" and facts.at_ms < start_ms + periods.length_ms(period, start_ms):
            yield of_health(health.used_up(row["agent"], period, row["unit"]), "costs")


def cost_jumps(facts: Facts) -> Iterator[Concern]:
    """Today or yesterday cost at least twice what a day usually does; incomplete days are left out."""
    spent = by(facts.all("costs"), "day", "cost_micro_dollars")
    first = min(spent, default=facts.today)
    usual_days = [each for each in map(facts.back, range(2, 9)) if each >= first and facts.is_complete(each)]
    if len(usual_days) < LEAST_DAYS:
        return
    usual = median(spent.get(each, 0) for each in usual_days)
    dearest = max((facts.back(0), facts.back(1)), key=lambda each: spent.get(each, 0))
    cost = spent.get(dearest, 0)
    if cost < 2 * usual or cost - usual < LEAST_JUMP:
        return
    agent, model = next(iter(by([row for row in facts.all("costs") if row["day"] == dearest], _payer, _COST)))
    yield Concern(
        Level.WATCH,
        f"Costs have jumped: {dollars(cost)} on {day(dearest)}, where {dollars(round(usual))} a day is usual. "
        f"Most went to agent {name(agent)} with {name(model)}.",
        "Look at its turns, and give it a budget if this is not intended.",
        f"emulator usage {argument(agent)} --turns",
        "costs",
    )


def turns_without_price(facts: Facts) -> Iterator[Concern]:
    """Turns that somebody pays for by tokens, and whose price is not known; a plan has no price for a turn."""
    rows = [row for row in facts.week("costs") if row["paid_by"] == "key" and row["turns_without_price"]]
    count = total(rows, "turns_without_price")
    if count:
        yield Concern(
            Level.WATCH,
            f"The cost of {plural(count, 'turn')} of the last 7 days is unknown, so the real sum is higher: "
            f"{name(next(iter(by(rows, 'model', 'turns_without_price'))))} has no price.",
            "Give the price of each model in POSTROOM_MODEL_PRICES.",
            section="costs",
        )


_COST = "cost_micro_dollars"


def _payer(row: Row) -> tuple[str, str]:
    return row["agent"], row["model"]
