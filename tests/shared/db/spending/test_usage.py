import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.spending import usage
from shared.db.spending.usage import Spent, Tokens, TurnName
from tests.support import NOW, column

TURN = TurnName("turn_1", "coder", "session_1")


def add(conn, name=TURN, model="m-1", tokens=Tokens(10, 5, 3, 2), cost=40, *, paid_by="key", now_ms=NOW):  # noqa: B008
    with transaction(conn):
        usage.add(conn, name, model, paid_by, tokens, cost, now_ms=now_ms)


def test_the_requests_of_a_turn_are_one_row(conn):
    add(conn)
    add(conn, now_ms=NOW + 9)
    (row,) = rows(conn, "SELECT turn, agent, session, model, paid_by FROM usage")
    assert row == ("turn_1", "coder", "session_1", "m-1", "key")
    (row,) = rows(conn, "SELECT requests, input, output, cache_read, cache_write, cost FROM usage")
    assert row == (2, 20, 10, 6, 4, 80)
    assert rows(conn, "SELECT created_at, updated_at FROM usage") == [(NOW, NOW + 9)]


def test_a_second_model_of_a_turn_is_a_second_row(conn):
    add(conn)
    add(conn, model="m-2")
    assert column(conn, "SELECT model FROM usage ORDER BY id") == ["m-1", "m-2"]


def test_a_sum_with_an_unknown_price_has_no_price(conn):
    add(conn)
    add(conn, cost=None)
    assert column(conn, "SELECT cost FROM usage") == [None]


def test_spending_counts_from_an_instant_for_one_agent_or_for_all(conn):
    add(conn, now_ms=NOW - 1)
    add(conn, TurnName("turn_2", "coder", "session_1"))
    add(conn, TurnName("turn_3", "writer", "session_2"), cost=None)
    add(conn, TurnName("turn_4", "writer", "session_2"), cost=None, paid_by="plan")
    assert usage.spent(conn, "coder", since_ms=NOW) == Spent(40, 20, 0)
    assert usage.spent(conn, "writer", since_ms=NOW) == Spent(0, 40, 20)  # a plan has no price for a token
    assert usage.spent(conn, None, since_ms=NOW) == Spent(40, 60, 20)
    assert usage.spent(conn, None, since_ms=NOW + 1) == Spent(0, 0, 0)


@pytest.mark.parametrize("statement", [usage.SPENT_IN_ALL, usage.SPENT_BY_AGENT])
def test_a_sum_reads_no_older_rows(conn, statement):
    plan = rows(conn, f"EXPLAIN QUERY PLAN {statement}", {"agent": "coder", "since": NOW, "until": NOW + 1})
    assert all("USING INDEX usage_" in step[3] and "created_at>? AND created_at<?" in step[3] for step in plan)


def test_old_rows_are_pruned_oldest_first_in_batches(conn):
    for number in range(4):
        add(conn, TurnName(f"turn_{number}", "coder", "session_1"), now_ms=NOW - 10 + number)
    with transaction(conn):
        assert usage.prune(conn, older_than_ms=NOW - 7, limit=2) == 2
        assert usage.prune(conn, older_than_ms=NOW - 7, limit=2) == 1
        assert usage.prune(conn, older_than_ms=NOW - 7, limit=2) == 0
    assert column(conn, "SELECT turn FROM usage") == ["turn_3"]
