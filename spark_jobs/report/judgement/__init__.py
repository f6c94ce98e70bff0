"""Judges the rows of the jobs: facts in, concerns out. Nothing here reads a file or a clock."""

from collections.abc import Callable, Iterable

from spark_jobs.report.facts import Facts
from spark_jobs.report.judgement import coverage, delivery, spending, turns
from spark_jobs.report.judgement.concern import Concern, Level, worst_first

RULES: tuple[Callable[[Facts], Iterable[Concern]], ...] = (
    turns.paused_agents,
    spending.used_up_budgets,
    turns.dead_messages,
    turns.overdue_messages,
    delivery.dead_responses,
    delivery.silent_channels,
    delivery.unknown_outcomes,
    turns.rising_failures,
    turns.growing_backlog,
    turns.slow_agents,
    delivery.slow_channels,
    delivery.rising_retries,
    turns.schedules_off,
    turns.loops,
    spending.cost_jumps,
    spending.turns_without_price,
    coverage.stale,
    coverage.restored,
    coverage.absent,
    coverage.incomplete,
)


def judge(facts: Facts) -> tuple[Concern, ...]:
    """All that needs a person, as ``emulator status`` says it, or is to be looked at, the worst first."""
    return worst_first([concern for rule in RULES for concern in rule(facts)])


def verdict(facts: Facts, concerns: tuple[Concern, ...]) -> tuple[str, str]:
    """How the postroom is doing: ``wrong``, ``watch``, ``well`` or ``empty``, and a sentence."""
    wrong = sum(concern.level is Level.NEEDS_YOU for concern in concerns)
    watch = len(concerns) - wrong
    also = f", and {_things(watch)} to look at" if watch else ""
    if wrong:
        return "wrong", f"{_things(wrong).capitalize()} {'needs' if wrong == 1 else 'need'} you{also}."
    if watch:
        return "watch", f"Nothing needs you. {_things(watch).capitalize()} to look at."
    if facts.first_day() is None:
        return "empty", "There is nothing to judge: no message has come for two months."
    return "well", "No problems."


def _things(count: int) -> str:
    return "one thing" if count == 1 else f"{count} things"
