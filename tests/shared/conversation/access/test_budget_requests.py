"""The question at the end of a budget, and its two answers."""

import json

import pytest

from shared.conversation.access import budget_requests
from shared.conversation.inbound import decisions, undecided
from shared.conversation.inbound.decisions import OPERATOR, Decider
from shared.core.errors import WrongState
from shared.core.time.periods import Period
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.spending import budgets
from tests.approval_requests import POLICY, event, person
from tests.support import NOW, column, make_agent

PERIOD = Period(NOW - 1000, NOW + 3_600_000)
BUDGETS = "SELECT amount, extra, extra_of FROM budgets"


def used_up(conn, agent="coder", amount=5_000_000, unit="money"):
    """The question about a budget."""
    if agent is not None and not column(conn, "SELECT id FROM agents WHERE id = :agent", agent=agent):
        make_agent(conn, agent)
    with transaction(conn):
        budgets.put(conn, agent, "day", unit, amount, now_ms=NOW)
        budget = budgets.find(conn, agent, "day", unit)
        return budget_requests.ask(conn, budget, PERIOD, "UTC", now_ms=NOW)


def press(conn, approval, choice, sender):
    token = f"{approval.approval_id}.{choice}"
    pressed = event("c1", sender, sender, kind="callback", text=token, context={"callback_id": "q"})
    with transaction(conn):
        decisions.click(conn, "telegram", pressed, policy=POLICY, now_ms=NOW + 1)


def test_an_owner_gets_a_card_with_two_buttons(conn):
    person(conn, "1", "owner")
    asked = used_up(conn)
    ((text, carried),) = rows(conn, "SELECT message, content FROM responses")
    assert text.startswith("**The budget of agent coder \\(\\$5\\.00 a day\\) is used up until 2027\\-01\\-15")
    assert [label for label, _ in json.loads(carried)["buttons"]] == [
        "Give $5.00 more",
        "Leave it until 2027-01-15 09:00",
    ]
    assert asked.expires_at == PERIOD.end_ms


def test_yes_gives_the_amount_once_more_in_this_period(conn):
    person(conn, "1", "owner")
    press(conn, used_up(conn), 0, "1")
    assert rows(conn, BUDGETS) == [(5_000_000, 5_000_000, PERIOD.start_ms)]
    press(conn, used_up(conn), 0, "1")
    assert rows(conn, BUDGETS) == [(5_000_000, 10_000_000, PERIOD.start_ms)]
    (budget,) = budgets.every(conn)
    assert (budget.limit(PERIOD.start_ms), budget.limit(PERIOD.end_ms)) == (15_000_000, 5_000_000)


def test_no_leaves_it(conn):
    person(conn, "1", "owner")
    asked = used_up(conn)
    press(conn, asked, 1, "1")
    assert rows(conn, BUDGETS) == [(5_000_000, 0, None)]
    assert approvals.get(conn, asked.approval_id).status == "refused"


def test_the_same_end_is_asked_about_once(conn):
    assert used_up(conn).approval_id == used_up(conn).approval_id


@pytest.mark.parametrize("agent", ["coder", None])
def test_an_admin_of_the_agent_decides_about_no_money(conn, agent):
    make_agent(conn, "coder")
    person(conn, "1", "owner")
    person(conn, "2", "admin", "coder")
    asked = used_up(conn, agent)
    press(conn, asked, 0, "2")
    assert approvals.get(conn, asked.approval_id).status == "pending"
    assert rows(conn, BUDGETS) == [(5_000_000, 0, None)]


def test_a_budget_that_was_changed_meanwhile_is_not_given_more(conn):
    asked = used_up(conn)
    rows(conn, "UPDATE budgets SET amount = 7")
    with transaction(conn):
        done = decisions.decide(conn, asked.approval_id, 0, OPERATOR, policy=POLICY, now_ms=NOW + 1)
    assert "the budget was changed since" in done.problem
    assert rows(conn, BUDGETS) == [(7, 0, None)]


def test_the_question_is_withdrawn_with_its_budget_only(conn):
    asked, of_all = used_up(conn), used_up(conn, None, 2000, "tokens")
    with transaction(conn):
        undecided.withdraw_budget(conn, asked.payload["budget"], "the budget was changed", now_ms=NOW)
    with transaction(conn), pytest.raises(WrongState, match="expired already"):
        decisions.decide(conn, asked.approval_id, 0, Decider("operator"), policy=POLICY, now_ms=NOW + 1)
    assert approvals.get(conn, of_all.approval_id).status == "pending"
