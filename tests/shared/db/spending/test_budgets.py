import pytest

from shared.db.engine.connection import transaction
from shared.db.spending import budgets
from tests.support import NOW, make_agent

DAY = 1000  # any instant will do for the start of a period


@pytest.fixture
def coder(conn):
    return make_agent(conn, "coder")


def put(conn, agent, amount, *, period="day", unit="money"):
    with transaction(conn):
        budgets.put(conn, agent, period, unit, amount, now_ms=NOW)


def mark(conn, notice, start=DAY):
    with transaction(conn):
        return budgets.mark(conn, budgets.every(conn)[0].id, notice, period_start_ms=start, now_ms=NOW)


def test_one_budget_for_each_agent_period_and_unit(conn, coder):
    put(conn, coder, 5)
    put(conn, None, 6)
    put(conn, coder, 7)
    put(conn, coder, 8, period="month")
    put(conn, coder, 9, unit="tokens")
    assert [each[1:5] for each in budgets.every(conn)] == [
        (None, "day", "money", 6),
        ("coder", "day", "money", 7),
        ("coder", "day", "tokens", 9),
        ("coder", "month", "money", 8),
    ]


def test_an_agent_is_bound_by_its_own_budgets_and_by_those_of_all(conn, coder):
    put(conn, coder, 5)
    put(conn, None, 6)
    put(conn, make_agent(conn, "writer"), 7)
    assert [each.amount for each in budgets.that_bind(conn, coder)] == [5, 6]
    assert [each.amount for each in budgets.every(conn, coder)] == [5]


def test_a_budget_is_removed_alone(conn, coder):
    put(conn, coder, 5)
    put(conn, None, 6)
    with transaction(conn):
        assert budgets.remove(conn, coder, "day", "money")
        assert not budgets.remove(conn, coder, "day", "money")
    assert [each.agent for each in budgets.every(conn)] == [None]


def test_each_notice_is_given_once_a_period(conn):
    put(conn, None, 5)
    assert mark(conn, "nearly")
    assert not mark(conn, "nearly")
    assert mark(conn, "used_up")
    assert not mark(conn, "used_up")
    assert not mark(conn, "nearly"), "what is used up is not nearly used up"
    assert mark(conn, "nearly", DAY + 1), "the next period begins without a notice"
    assert not mark(conn, "used_up", DAY), "a clock that went back repeats nothing"


def test_another_amount_is_told_again_and_the_same_one_is_not(conn):
    put(conn, None, 5)
    mark(conn, "used_up")
    put(conn, None, 5)
    assert not mark(conn, "used_up")
    put(conn, None, 10)
    assert mark(conn, "nearly")
