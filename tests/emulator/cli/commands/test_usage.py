"""``emulator usage`` and ``emulator budgets``."""

from collections.abc import Iterator

import pytest

from shared.core.time import periods
from shared.db.engine.connection import transaction
from shared.db.spending import budgets, usage
from shared.db.spending.usage import Tokens, TurnName
from tests.emulator.cli.commands.conftest import Postroom, serve, stop

NOW_MS = 1_795_168_800_000  # 2026-11-20T10:00:00Z
CLOCK = f"import time\ntime.time_ns = lambda: {NOW_MS} * 10**6\ntime.time = lambda: {NOW_MS} / 1000\n"


@pytest.fixture(scope="module")
def postroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postroom]:
    """A Postroom whose clock stands: the commands show the present day and month, and no midnight may come between."""
    folder = tmp_path_factory.mktemp("postroom")
    (folder / "sitecustomize.py").write_text(CLOCK)
    process, served = serve(folder, PYTHONPATH=str(folder))
    yield served
    stop(process, served)


@pytest.fixture(scope="module", autouse=True)
def used(postroom: Postroom) -> None:
    postroom.run("agents", "set", "coder")
    with transaction(postroom.conn):
        for turn, model, cost in (("turn_1", "m", 1_250_000), ("turn_2", "m", 2_000), ("turn_3", "n", None)):
            name = TurnName(turn, "coder", "session_1")
            usage.add(postroom.conn, name, model, "key", Tokens(100, 20, 3, 1), cost, now_ms=NOW_MS)


def test_the_usage_of_the_month_is_summed_by_agent_and_model(postroom: Postroom) -> None:
    lines = postroom.run("usage").stdout.splitlines()
    assert lines[1].split() == ["2", "coder", "m", "key", "200", "40", "6", "2", "$1.252"]
    assert lines[2].split() == ["1", "coder", "n", "key", "100", "20", "3", "1"]
    assert lines[-1] == "No price is known for 124 of these tokens: set POSTROOM_MODEL_PRICES (docs/agents/money.md)."
    assert postroom.run("usage", "nobody").stdout == "No turn has used a model this month.\n"


def test_usage_is_shown_by_turn(postroom: Postroom) -> None:
    lines = postroom.run("usage", "--turns", "--limit", "2").stdout.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["turn_3", "turn_2"]
    assert lines[2].split()[-1] == "$0.002"


def test_usage_is_shown_by_day(postroom: Postroom) -> None:
    lines = postroom.run("usage", "--days").stdout.splitlines()
    assert lines[1].split() == ["2026-11-20", "2", "coder", "m", "key", "200", "40", "6", "2", "$1.252"]
    postroom.refused("usage", "--days", "--turns", code=64)


def test_what_an_owner_gave_beyond_a_budget_is_shown_beside_it(postroom: Postroom) -> None:
    postroom.run("budgets", "set", "day", "--tokens", "372", "--agent", "coder")
    start_ms = periods.containing("day", NOW_MS, "UTC").start_ms
    with transaction(postroom.conn):
        (budget,) = budgets.every(postroom.conn, "coder")
        budgets.give(postroom.conn, budget.id, amount=372, start_ms=start_ms, now_ms=NOW_MS)
    lines = postroom.run("budgets", "list").stdout.splitlines()
    assert lines[1].split() == ["coder", "day", "372", "tokens", "+", "372", "tokens", "372", "tokens", "50", "%"]
    postroom.run("budgets", "delete", "day", "tokens", "--agent", "coder")


def test_budgets_are_set_in_dollars_or_tokens_listed_and_deleted(postroom: Postroom) -> None:
    assert "budgets set day --dollars 5" in postroom.run("budgets", "list").stdout
    said = postroom.run("budgets", "set", "month", "--dollars", "2.50").stdout
    assert said == "all agents: at most $2.50 a month. $1.252 is spent (50 %).\n"
    postroom.run("budgets", "set", "day", "--tokens", "372", "--agent", "coder")
    lines = postroom.run("budgets", "list").stdout.splitlines()
    assert lines[1].split() == ["all", "agents", "month", "$2.50", "$1.252", "50", "%"]
    assert lines[2].split() == ["coder", "day", "372", "tokens", "372", "tokens", "100", "%"]
    assert postroom.json("budgets", "list", "coder")[0]["amount"] == 372
    postroom.run("budgets", "delete", "month", "money")
    postroom.run("budgets", "delete", "day", "tokens", "--agent", "coder")
    assert postroom.json("budgets", "list") == []


def test_a_limit_that_is_no_amount_is_refused(postroom: Postroom) -> None:
    for wrong in ("five", "-1", "0.0000001", "inf"):
        assert wrong in postroom.refused("budgets", "set", "day", "--dollars", wrong, code=65)
    postroom.refused("budgets", "set", "day", code=64)
    postroom.refused("budgets", "set", "day", "--dollars", "1", "--tokens", "1", code=64)
    assert "lists them" in postroom.refused("budgets", "delete", "day", "money", code=66)
