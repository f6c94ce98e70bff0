"""The few numbers of the first screenful: this week beside the week before."""

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.report.facts import Facts, by, total
from spark_jobs.report.judgement.turns import open_at_end
from spark_jobs.report.words import NOTHING, day, dollars, name, number, span


@dataclass(frozen=True, slots=True)
class Tile:
    """One number, what it counts, and what it was before."""

    label: str
    value: str
    before: str


def tiles(facts: Facts) -> tuple[Tile, ...]:
    """The numbers of the last 7 days."""
    return tuple(_tiles(facts))


def _tiles(facts: Facts) -> Iterator[Tile]:
    for label, job, column in (
        ("Messages", "message_volume", "received"),
        ("Dead messages", "failures", "dead"),
        ("Answers delivered", "deliveries", "delivered"),
    ):
        yield Tile(label, number(total(facts.week(job), column)), _before(facts, job, column))
    yield Tile("Open now", number(open_at_end(facts, facts.today)), "waiting or in a turn")
    yield _slowest(facts)
    if facts.all("costs"):
        spent = dollars(total(facts.week("costs"), "cost_micro_dollars"))
        earlier = dollars(total(facts.week_before("costs"), "cost_micro_dollars"))
        yield Tile("Costs", spent, f"{earlier} the week before" if facts.has_week_before("costs") else "")


def _before(facts: Facts, job: str, column: str) -> str:
    return f"{number(total(facts.week_before(job), column))} the week before" if facts.has_week_before(job) else ""


def _slowest(facts: Facts) -> Tile:
    """The longest wait (p95) of an agent on the latest day with turns."""
    rows = [row for row in facts.week("turn_times_of_days") if row["wait_p95_ms"] is not None]
    if not rows:
        return Tile("Longest wait, p95", NOTHING, "")
    latest = max(by(rows, "day", "waited"))
    worst = max((row for row in rows if row["day"] == latest), key=lambda row: row["wait_p95_ms"])
    return Tile("Longest wait, p95", span(worst["wait_p95_ms"]), f"agent {name(worst['agent'], 20)}, {day(latest)}")
