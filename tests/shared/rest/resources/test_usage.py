"""Usage and budgets over the API."""

import pytest

from shared.db.engine.connection import transaction
from shared.db.spending import usage
from shared.db.spending.usage import Tokens, TurnName
from tests.api_client import ask, get
from tests.support import NOW, column, make_agent, put


@pytest.fixture
def used(conn):
    """Two agents; the coder's two turns, and the writer's turn, paid by a plan, with a model without a price."""
    for agent in ("coder", "writer"):
        make_agent(conn, agent)
    with transaction(conn):
        for turn, cost in (("turn_1", 40), ("turn_2", 60)):
            usage.add(conn, TurnName(turn, "coder", "session_1"), "m", "key", Tokens(4, 3, 2, 1), cost, now_ms=NOW)
        usage.add(conn, TurnName("turn_3", "writer", "session_2"), "n", "plan", Tokens(5), None, now_ms=NOW + 5)


def test_usage_is_one_row_a_turn_newest_first(serving, used):
    found = get(serving, "/api/usage").json()
    assert [each["turn"] for each in found] == ["turn_3", "turn_2", "turn_1"]
    assert found[2] == {
        **{"id": 1, "turn": "turn_1", "agent": "coder", "session": "session_1", "model": "m", "paidBy": "key"},
        **{"requests": 1, "input": 4, "output": 3, "cacheRead": 2, "cacheWrite": 1, "cost": 40},
        **{"createdAt": NOW, "updatedAt": NOW},
    }
    assert [each["id"] for each in get(serving, "/api/usage?agent=coder&limit=1").json()] == [2]
    assert [each["id"] for each in get(serving, "/api/usage?before=3&session=session_1").json()] == [2, 1]


def test_totals_are_by_agent_and_model(serving, used):
    found = get(serving, f"/api/usage/totals?since={NOW}").json()
    shown = [(each["agent"], each["turns"], each["input"], each["cost"], each["unpriced"]) for each in found]
    assert shown == [("coder", 2, 8, 100, 0), ("writer", 1, 5, None, 5)]
    assert [each["agent"] for each in get(serving, f"/api/usage/totals?since={NOW + 1}").json()] == ["writer"]
    assert get(serving, f"/api/usage/totals?since=0&until={NOW}").json() == []


def test_a_budget_is_set_shown_changed_and_deleted(serving, used):
    saved = ask(serving, "PUT", "/api/agents/coder/budgets/day/tokens", {"amount": 10}).json()
    assert saved["ok"]
    assert saved["budget"]["since"] < saved["budget"]["until"]
    assert ask(serving, "PUT", "/api/budgets/month/money", {"amount": 5_000_000}).status_code == 200
    ask(serving, "PUT", "/api/agents/coder/budgets/day/tokens", {"amount": 20})
    listed = get(serving, "/api/budgets").json()
    assert [(each["agent"], each["period"], each["unit"], each["amount"]) for each in listed] == [
        (None, "month", "money", 5_000_000),
        ("coder", "day", "tokens", 20),
    ]
    assert len(get(serving, "/api/budgets?agent=coder").json()) == 1
    assert ask(serving, "DELETE", "/api/budgets/month/money").json() == {"ok": True}
    assert ask(serving, "DELETE", "/api/agents/coder/budgets/day/tokens").json() == {"ok": True}
    assert get(serving, "/api/budgets").json() == []


def test_a_budget_shows_what_its_own_agent_has_spent_and_that_of_all_what_all_have(serving, used):
    for path in ("agents/coder/budgets/day/tokens", "agents/writer/budgets/day/tokens", "budgets/day/tokens"):
        ask(serving, "PUT", f"/api/{path}", {"amount": 100})
    shown = [(each["agent"], each["spent"]) for each in get(serving, "/api/budgets").json()]
    assert shown == [(None, 25), ("coder", 20), ("writer", 5)]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("PUT", "/api/budgets/week/money", {"amount": 1}, 404, "there is no period 'week'"),
        ("PUT", "/api/budgets/day/euros", {"amount": 1}, 404, "there is no unit 'euros'"),
        ("PUT", "/api/agents/nobody/budgets/day/money", {"amount": 1}, 404, "nobody"),
        ("PUT", "/api/budgets/day/money", {"amount": -1}, 400, "amount"),
        ("PUT", "/api/budgets/day/money", {"amount": 1.5}, 400, "amount"),
        ("PUT", "/api/budgets/day/money", {"limit": 1}, 400, "amount"),
        ("DELETE", "/api/budgets/day/money", None, 404, "GET /api/budgets lists them"),
        ("DELETE", "/api/agents/coder/budgets/day/money", None, 404, "agent 'coder' has no budget of money a day"),
    ],
)
def test_a_wrong_budget_is_refused_and_changes_nothing(serving, used, method, path, body, status, said):
    reply = ask(serving, method, path, body)
    assert reply.status_code == status
    assert said in reply.json()["error"]
    assert get(serving, "/api/budgets").json() == []


def test_usage_by_day_is_in_the_time_zone_of_the_settings(serving, conn, monkeypatch):
    midnight = 1_800_025_200_000  # 2027-01-15T15:00:00Z, and the 16th begins in Tokyo
    monkeypatch.setenv("POSTROOM_TIMEZONE", "Asia/Tokyo")
    make_agent(conn, "coder")
    with transaction(conn):
        for number, (at_ms, cost) in enumerate(((midnight - 1, 4), (midnight, 5), (midnight + 3_600_000, None))):
            name = TurnName(f"turn_{number}", "coder", "session_1")
            usage.add(conn, name, "m", "key", Tokens(1, 2, 3, 4), cost, now_ms=at_ms)
    found = get(serving, "/api/usage/days?since=0").json()
    assert [(each["day"], each["turns"], each["input"], each["cost"], each["unpriced"]) for each in found] == [
        ("2027-01-16", 2, 2, 5, 10),
        ("2027-01-15", 1, 1, 4, 0),
    ]
    assert get(serving, "/api/usage/days?since=0&agent=writer").json() == []


def test_a_message_tells_what_its_turns_took(serving, conn):
    make_agent(conn, "coder")
    for message in ("m-1", "m-2"):
        put(conn, message, agent="coder")
    ids = column(conn, "SELECT message_id FROM messages")
    session = column(conn, "SELECT session_id FROM sessions")[0]
    at_ms = max(column(conn, "SELECT created_at FROM messages")) + 1
    with transaction(conn):
        first = TurnName("turn_1", "coder", session, tuple(ids))
        usage.add(conn, first, "m", "key", Tokens(1000, 200), 1500, now_ms=at_ms)
        usage.add(conn, TurnName("turn_2", "coder", session, (ids[0],)), "m", "plan", Tokens(7), None, now_ms=at_ms)
        usage.add(conn, TurnName("turn_3", "coder", session), "m", "key", Tokens(7), 1, now_ms=at_ms)
    one, two = (get(serving, f"/api/messages/{each}").json()["usage"] for each in ids)
    assert [(each["turn"], each["input"], each["cost"], each["messages"]) for each in one] == [
        ("turn_1", 1000, 1500, 2),
        ("turn_2", 7, None, 1),
    ]
    assert [each["turn"] for each in two] == ["turn_1"]
    said = get(serving, f"/api/messages/{ids[0]}/why").json()
    assert said["reason"].endswith("Its turns with 1 other message took 1,207 tokens, for $0.0015.")
    assert said["usage"] == one
