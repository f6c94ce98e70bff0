"""What turns took is summed from two parts, of which the older one is read once an hour."""

import apsw

from shared.db.engine.connection import transaction
from shared.db.spending import usage
from shared.db.spending.settled_usage import SettledUsage
from shared.db.spending.usage import Tokens, TurnName
from shared.db.views import spending
from tests.support import NOW, make_agent

HOUR = 60 * 60 * 1000
DAY = 24 * HOUR
MONTH = NOW - 14 * DAY - 8 * HOUR  # 2027-01-01


def used(conn, at_ms, turn, agent="assistant", cost=5):
    with transaction(conn):
        usage.add(conn, TurnName(turn, agent, "session_1"), "m", "key", Tokens(10), cost, now_ms=at_ms)


def sums(conn, settled, now_ms):
    found = spending.totals_until_now(conn, settled, since_ms=MONTH, now_ms=now_ms)
    return [(each["agent"], each["turns"], each["input"], each["cost"]) for each in found]


def test_both_parts_are_summed_by_agent_and_only_the_newer_one_is_read_again(conn):
    make_agent(conn, "coder")
    used(conn, MONTH - 1, "of december")
    used(conn, NOW - 3 * DAY, "old")
    used(conn, NOW - HOUR, "new")
    used(conn, NOW - HOUR, "of another", "coder", cost=None)
    settled, asked = SettledUsage(), []
    assert sums(conn, settled, NOW) == [("assistant", 2, 20, 10), ("coder", 1, 10, None)]

    used(conn, NOW, "newest")
    conn.trace_v2(apsw.SQLITE_TRACE_STMT, lambda told: asked.append(told["sql"]))
    assert sums(conn, settled, NOW + 1)[0] == ("assistant", 3, 30, 15)
    assert len([sql for sql in asked if "FROM usage" in sql]) == 1
    assert sums(conn, settled, NOW + DAY)[0] == ("assistant", 3, 30, 15)


def test_a_budget_counts_the_same_with_it(conn):
    with transaction(conn):
        for period in ("month", "day"):
            conn.execute(
                "INSERT INTO budgets (agent, period, unit, amount, created_at, updated_at)"
                " VALUES (NULL, ?, 'money', 100, 1, 1)",
                (period,),
            )
    for turn, at_ms in (("a", NOW - 3 * DAY), ("b", NOW - 2 * DAY), ("c", NOW - HOUR)):
        used(conn, at_ms, turn)
    settled = SettledUsage()
    for _ in range(2):
        found = spending.all_budgets(conn, "UTC", now_ms=NOW, settled=settled)
        assert {each["period"]: each["spent"] for each in found} == {"month": 15, "day": 5}
