"""What the report says about money."""

from datetime import date

import pytest

from spark_jobs.report.judgement import spending
from tests.spark_jobs.report.samples import DAY_MS, NOON, budget, cost, facts, ms


def said(rule, rows):
    return [concern.what for concern in rule(facts(costs=rows))]


def used_up(*rows):
    return [concern.what for concern in spending.used_up_budgets(facts(whole={"budgets": rows}))]


def test_a_used_up_budget_needs_a_person_in_the_words_of_the_status():
    rows = (budget(None, NOON - 1, unit="tokens"), budget("coder", ms(date(2025, 10, 1)), period="month"))
    assert used_up(*rows) == [
        "The budget in tokens of all agents for this day is used up, so messages wait until it is over.",
        "The budget in money of coder for this month is used up, so messages wait until it is over.",
    ]
    (concern,) = spending.used_up_budgets(facts(whole={"budgets": rows[:1]}))
    assert (concern.then, concern.command) == ("To give more:", "emulator budgets set day --tokens NUMBER")


@pytest.mark.parametrize(
    ("row", "is_told"),
    [
        (budget("coder", NOON - DAY_MS + 1), True),
        (budget("coder", NOON - DAY_MS), False),
        (budget("coder", ms(date(2025, 9, 9)), period="month"), False),
        (budget("coder", NOON - 1, notice="nearly"), False),
        (budget("coder", None, notice=None), False),
    ],
    ids=["this_day", "day_is_over", "month_is_over", "nearly", "given_more"],
)
def test_a_budget_is_told_until_its_day_or_month_is_over(row, is_told):
    assert bool(used_up(row)) is is_told


@pytest.mark.parametrize(
    ("usual", "now", "jumps"), [(2_000_000, 4_000_000, True), (2_000_000, 3_999_999, False), (100, 900_000, False)]
)
def test_costs_jump_that_are_twice_the_usual_and_a_dollar_more(usual, now, jumps):
    rows = [cost(days, "support", usual) for days in range(2, 9)]
    rows += [cost(1, "support", now // 4), cost(1, "coder", now - now // 4, model="opus")]
    expected = "Costs have jumped: $4.00 on 8 Oct, where $2.00 a day is usual. Most went to agent coder with opus."
    assert said(spending.cost_jumps, rows) == ([expected] if jumps else [])


def test_the_command_that_is_told_does_only_what_it_says():
    rows = [cost(0, "x; reboot", 9_000_000), cost(8, "x; reboot", 1)]
    (concern,) = spending.cost_jumps(facts(costs=rows))
    assert concern.command == "emulator usage 'x; reboot' --turns"


def test_two_days_say_nothing_about_what_is_usual():
    rows = [cost(days, "support", 1000) for days in (2, 3)]
    assert said(spending.cost_jumps, [*rows, cost(0, "support", 90_000_000)]) == []


def test_days_without_costs_count_for_what_is_usual():
    rows = [cost(8, "support", 9_000_000), cost(0, "support", 9_000_000)]
    assert said(spending.cost_jumps, rows) == [
        "Costs have jumped: $9.00 on 9 Oct, where $0.00 a day is usual. Most went to agent support with claude-sonnet."
    ]


def test_a_turn_on_a_key_without_a_price_is_told_and_one_on_a_plan_is_not():
    rows = [cost(0, "coder", 0, model="new", unpriced=3), cost(0, "coder", 0, paid_by="plan", unpriced=9)]
    assert said(spending.turns_without_price, rows) == [
        "The cost of 3 turns of the last 7 days is unknown, so the real sum is higher: new has no price."
    ]
