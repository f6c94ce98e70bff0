"""Budgets before requests, and what owners are told."""

import asyncio

import apsw
import pytest
import structlog

from shared.conversation.access import people
from shared.conversation.inbound import decisions
from shared.conversation.inbound.decisions import OPERATOR
from shared.db.access import approvals, users
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.group_commit import Writer
from shared.db.spending import budgets, usage
from shared.db.spending.usage import Tokens, TurnName
from shared.turns.gateway.ledger import Estimate, Ledger, spares
from shared.turns.gateway.tokens import Refusal
from shared.turns.gateway.upstreams import GatewaySettings
from tests.approval_requests import POLICY
from tests.support import NOW, column, make_agent

DAY_MS = 24 * 60 * 60 * 1000
TOMORROW = 1_800_057_600_000  # 2027-01-16T00:00:00Z
PRICES = {"m": {"input": "1", "output": "10"}}


@pytest.fixture
def ledger(db, conn):
    make_agent(conn, "coder")
    with transaction(conn):
        owner = users.ensure(conn, "telegram", "7", name="Ana", now_ms=NOW)
        people.grant(conn, owner.id, "owner", None, by="test", now_ms=NOW)
    writer, told = Writer(db, clock_s=lambda: 0.0), []  # the disk is never slow
    made = Ledger(conn, writer, GatewaySettings(model_prices=PRICES), "UTC", lambda: told.append(1))
    made.told = told
    yield made
    writer.close()


def put(conn, agent="coder", amount=100, *, period="day", unit="tokens"):
    with transaction(conn):
        budgets.put(conn, agent, period, unit, amount, now_ms=NOW)


def admit(ledger, agent="coder", model="m", paid_by="key", *, now_ms=NOW):
    return asyncio.run(ledger.admit(agent, model, paid_by, now_ms=now_ms))


def use(ledger, output, agent="coder", model="m", paid_by="key", *, now_ms=NOW):
    name = TurnName(f"turn_{now_ms}", agent, "session_1")
    asyncio.run(ledger.record(name, model, paid_by, Tokens(output=output), now_ms=now_ms))


def said(conn):
    return column(conn, "SELECT message FROM responses ORDER BY id")


def test_without_a_budget_everything_is_admitted(ledger, conn):
    use(ledger, 10**9)
    assert admit(ledger) is None
    assert said(conn) == []


def test_an_agent_is_refused_from_its_budget_on_until_the_day_is_over(ledger, conn):
    put(conn)
    use(ledger, 99)
    assert admit(ledger) is None
    use(ledger, 1)
    refusal = admit(ledger)
    assert (refusal.reason, refusal.until_ms) == ("budget", TOMORROW)
    assert refusal.sentence == ("The budget of agent coder (100 tokens a day) is used up until 2027-01-16 00:00 (UTC).")
    assert admit(ledger, "assistant") is None
    assert admit(ledger, now_ms=TOMORROW - 1) is not None
    assert admit(ledger, now_ms=TOMORROW) is None


def test_the_budget_of_all_counts_every_agent(ledger, conn):
    put(conn, None, period="month")
    use(ledger, 60)
    use(ledger, 40, "assistant")
    assert admit(ledger, "assistant").reason == admit(ledger).reason == "budget"


@pytest.mark.parametrize("order", [("coder", "assistant"), ("assistant", "coder")])
def test_what_one_agent_uses_counts_against_no_budget_of_another(ledger, conn, order):
    """Whichever of them asked first: what is spent is kept in memory from then on."""
    put(conn, amount=100)
    put(conn, "assistant", amount=100)
    assert [admit(ledger, agent) for agent in order] == [None, None]
    use(ledger, 100)
    assert admit(ledger).reason == "budget"
    assert admit(ledger, "assistant") is None
    use(ledger, 99, "assistant", now_ms=NOW + 1)
    assert admit(ledger, "assistant") is None
    assert rows(conn, "SELECT agent, notice FROM budgets ORDER BY agent") == [
        *(("assistant", "nearly"), ("coder", "used_up")),
    ]


def test_a_request_under_way_of_one_agent_holds_no_request_of_another_and_takes_nothing_from_its_sum(ledger, conn):
    put(conn)
    put(conn, "assistant", amount=100)
    estimate = Estimate(Tokens(output=60), Tokens(output=100))

    async def go():
        under_way = await ledger.begin(TurnName("turn_1", "coder", "session_1"), "m", "key", estimate, now_ms=NOW)
        async with asyncio.timeout(30):  # the other agent's request does not wait for the end of this one
            other = await ledger.begin(TurnName("turn_2", "assistant", "session_2"), "m", "key", estimate, now_ms=NOW)
        await ledger.settle(other, Tokens(output=100), now_ms=NOW)
        refused = await ledger.admit("assistant", "m", "key", now_ms=NOW)
        await ledger.withdraw(under_way, now_ms=NOW)
        return refused, await ledger.admit("coder", "m", "key", now_ms=NOW)

    refused, admitted = asyncio.run(go())
    assert refused.reason == "budget"
    assert admitted is None


def test_another_agent_whose_budget_is_used_up_stops_no_turn_and_no_heartbeat(ledger, conn):
    put(conn)
    put(conn, "assistant", amount=100)
    use(ledger, 100)
    use(ledger, 1, "assistant", now_ms=NOW + 1)
    stopped = [asyncio.run(ledger.stop(agent, now_ms=NOW)) for agent in ("coder", "assistant")]
    assert [each and each.reason for each in stopped] == ["budget", None]
    assert [spares(conn, agent, "UTC", now_ms=NOW) is None for agent in ("coder", "assistant")] == [False, True]


def test_the_estimate_of_one_agent_is_not_taken_from_what_another_had_used_before_this_process(ledger, conn):
    put(conn, "assistant", amount=100)
    before = TurnName("turn_0", "assistant", "session_2")
    with transaction(conn):
        usage.add(conn, before, "m", "key", Tokens(output=100), 1000, now_ms=NOW)
    estimate = Estimate(Tokens(output=60), Tokens(output=100))

    async def go():
        await ledger.begin(TurnName("turn_1", "coder", "session_1"), "m", "key", estimate, now_ms=NOW)
        return await ledger.admit("assistant", "m", "key", now_ms=NOW)

    assert asyncio.run(go()).reason == "budget"


def test_what_an_earlier_process_wrote_counts(ledger, conn, db):
    put(conn)
    use(ledger, 100)
    writer = Writer(db)
    later = Ledger(conn, writer, GatewaySettings(), "UTC", print)
    assert asyncio.run(later.admit("coder", "m", "key", now_ms=NOW)).reason == "budget"
    writer.close()


def test_a_raised_budget_admits_at_once(ledger, conn):
    put(conn)
    use(ledger, 100)
    put(conn, amount=101)
    assert admit(ledger) is None


def test_money_is_what_keys_pay(ledger, conn):
    put(conn, amount=1000, unit="money")
    use(ledger, 10**6, paid_by="plan")
    assert admit(ledger) is None
    assert column(conn, "SELECT cost FROM usage") == [None]
    use(ledger, 100)
    assert column(conn, "SELECT cost FROM usage WHERE paid_by = 'key'") == [1000]
    assert admit(ledger).reason == "budget"
    assert admit(ledger, paid_by="plan") is None


def test_a_model_without_a_price_can_not_be_used_under_a_budget_in_money(ledger, conn):
    put(conn, amount=1000, unit="money")
    refusal = admit(ledger, model="unknown")
    assert refusal.reason == "unpriced"
    assert "POSTROOM_MODEL_PRICES" in refusal.sentence
    assert admit(ledger, model="unknown", paid_by="plan") is None
    assert admit(ledger, "assistant", model="unknown") is None


def test_an_owner_is_told_once_at_80_percent_and_once_at_100(ledger, conn):
    put(conn)
    use(ledger, 79)
    assert said(conn) == []
    use(ledger, 1)
    use(ledger, 1)
    assert said(conn) == ["80 % of the budget of agent coder (100 tokens a day) is used."]
    use(ledger, 19)
    use(ledger, 50)
    admit(ledger)
    assert len(said(conn)) == 2
    assert said(conn)[1].startswith("**The budget of agent coder \\(100 tokens a day\\) is used up until 2027")
    assert rows(conn, "SELECT platform_id FROM responses") == [("7",), ("7",)]
    assert column(conn, "SELECT type FROM events WHERE type GLOB 'budget_*'") == ["budget_nearly", "budget_used_up"]
    assert len(ledger.told) == 2


def test_a_budget_of_nothing_stops_an_agent_without_a_question(ledger, conn):
    put(conn, amount=0)
    admit(ledger)
    (text,) = said(conn)
    assert text.endswith("To go on, raise it: emulator budgets set day --tokens N --agent coder")
    assert column(conn, "SELECT kind FROM approvals") == []


def test_what_an_owner_gives_admits_at_once_and_is_told_of_again(ledger, conn):
    put(conn)
    use(ledger, 100)
    asked = approvals.get(conn, *column(conn, "SELECT approval_id FROM approvals"))
    with transaction(conn):
        decisions.decide(conn, asked.approval_id, 0, OPERATOR, policy=POLICY, now_ms=NOW + 1)
    assert admit(ledger) is None
    use(ledger, 60)
    assert "80 % of the budget" in said(conn)[-1]
    use(ledger, 40)
    assert "(100 tokens a day and 100 tokens more this day) is used up until" in admit(ledger).sentence
    assert column(conn, "SELECT status FROM approvals ORDER BY id") == ["approved", "pending"]
    use(ledger, 99, now_ms=TOMORROW)
    assert admit(ledger, now_ms=TOMORROW) is None
    use(ledger, 1, now_ms=TOMORROW)
    assert admit(ledger, now_ms=TOMORROW).reason == "budget"


def test_the_next_day_is_told_again(ledger, conn):
    put(conn)
    use(ledger, 100)
    use(ledger, 100, now_ms=NOW + DAY_MS)
    assert len(said(conn)) == 2


def test_without_an_owner_the_event_is_there_all_the_same(ledger, conn):
    rows(conn, "DELETE FROM user_roles")
    put(conn, amount=0)
    assert admit(ledger).reason == "budget"
    assert said(conn) == []
    assert column(conn, "SELECT agent FROM events WHERE type = 'budget_used_up'") == ["coder"]


# -- requests that are under way

WORTH_TEN = Estimate(Tokens(input=4, output=6), Tokens(input=4, output=16))


def name_of(number, agent="coder"):
    return TurnName(f"turn_{number}", agent, "session_1")


def begin(ledger, number=0, agent="coder", paid_by="key"):
    return ledger.begin(name_of(number, agent), "m", paid_by, WORTH_TEN, now_ms=NOW)


def test_a_request_that_was_under_way_when_dispatch_died_is_counted(ledger, conn, db):
    put(conn, amount=10)
    asyncio.run(begin(ledger))
    assert rows(conn, "SELECT requests, input, output, cost FROM usage") == [(1, 4, 6, 64)]
    later = Ledger(conn, ledger._writer, GatewaySettings(), "UTC", print)  # of the next dispatch
    assert admit(later).reason == "budget"


def test_an_estimate_is_in_its_row_without_a_wait_for_another_thread(ledger, conn):
    """A request waits for it. The first one makes the writer open its connection."""
    asyncio.run(begin(ledger))
    with pytest.raises(StopIteration) as begun:
        begin(ledger, 1).send(None)  # it runs to its end without a pause
    assert begun.value.value.name == name_of(1, "coder")
    assert column(conn, "SELECT requests FROM usage ORDER BY id") == [1, 1]


@pytest.mark.parametrize("used", [Tokens(1, 2), Tokens(100, 200, 3, 4), WORTH_TEN.usual])
def test_what_a_request_used_takes_the_place_of_its_estimate(ledger, conn, used):
    async def go():
        for _ in range(2):
            await ledger.settle(await begin(ledger), used, now_ms=NOW)

    asyncio.run(go())
    two = Tokens(*(2 * each for each in used))
    cost = 2 * (used.input + used.cache_read + used.cache_write + 10 * used.output)
    assert rows(conn, "SELECT requests, input, output, cache_read, cache_write, cost FROM usage") == [(2, *two, cost)]


def test_a_request_that_was_refused_leaves_nothing(ledger, conn):
    async def go():
        one, two = await begin(ledger), await begin(ledger)
        await ledger.settle(one, Tokens(1, 2), now_ms=NOW)
        await ledger.withdraw(two, now_ms=NOW)
        await ledger.withdraw(await begin(ledger, 2), now_ms=NOW)

    asyncio.run(go())
    assert rows(conn, "SELECT turn, requests, input, output, cost FROM usage") == [("turn_0", 1, 1, 2, 21)]


def test_a_request_that_could_not_be_noted_takes_nothing_from_what_was_used(ledger, conn):
    async def go():
        await ledger.settle(await begin(ledger), Tokens(1, 2), now_ms=NOW)
        rows(conn, "CREATE TRIGGER full BEFORE INSERT ON usage BEGIN SELECT RAISE(ABORT, 'no room'); END")
        with pytest.raises(apsw.ConstraintError):
            await begin(ledger)

    asyncio.run(go())
    assert rows(conn, "SELECT requests, input, output FROM usage") == [(1, 1, 2)]


@pytest.mark.parametrize(("unit", "amount"), [("tokens", 25), ("money", 250)])
def test_of_ten_requests_at_once_one_goes_past_the_budget(ledger, conn, unit, amount):
    """Each uses 20 tokens, of 164 micro-dollars: two fit, and none but the second goes past."""
    put(conn, amount=amount, unit=unit)

    async def one(number):
        found = await begin(ledger, number)
        if isinstance(found, Refusal):
            return found.reason
        await asyncio.sleep(0)
        await ledger.settle(found, WORTH_TEN.most, now_ms=NOW)
        return "used"

    async def go():
        return sorted(await asyncio.gather(*map(one, range(10))))

    assert asyncio.run(asyncio.wait_for(go(), 20)) == ["budget"] * 8 + ["used"] * 2
    assert column(conn, "SELECT sum(requests) FROM usage") == [2]


def test_where_a_budget_is_far_away_nobody_waits(ledger, conn):
    make_agent(conn, "writer")
    put(conn, amount=1000)
    put(conn, agent="writer", amount=1)

    async def go():
        return [type(await begin(ledger, number)).__name__ for number in range(10)]

    assert asyncio.run(asyncio.wait_for(go(), 20)) == ["UnderWay"] * 10


def test_what_can_not_be_written_of_a_request_whose_turn_is_cut_off_is_logged(ledger, conn, db, until):
    async def go():
        asyncio.get_running_loop().set_exception_handler(lambda _, facts: lines.append({"event": facts["message"]}))
        found = await begin(ledger)
        conn.execute("DROP TABLE usage")
        writing = asyncio.ensure_future(ledger.write_used(found, Tokens(output=1), now_ms=NOW))
        with transaction(open_connection(db)):  # the write waits, so that the cancel comes first
            await asyncio.sleep(0.01)
            writing.cancel()
        await until(lambda: lines)

    with structlog.testing.capture_logs() as lines:
        asyncio.run(go())
    assert [each["event"] for each in lines] == ["gateway.usage_not_written"]


def test_others_wait_until_a_request_ends_and_then_go_on(ledger, conn):
    put(conn, amount=30)

    async def go():
        first = await begin(ledger)
        second = asyncio.ensure_future(begin(ledger, 1))
        await asyncio.sleep(0.01)
        waited = not second.done()
        await ledger.withdraw(first, now_ms=NOW)
        return waited, type(await second).__name__

    assert asyncio.run(asyncio.wait_for(go(), 20)) == (True, "UnderWay")


def test_a_program_that_says_itself_what_it_used_is_stopped_before_its_next_turn(ledger, conn):
    put(conn)
    make_agent(conn, "writer")
    put(conn, agent=None, amount=150)
    assert asyncio.run(ledger.stop("coder", now_ms=NOW)) is None
    use(ledger, 100)
    refusal = asyncio.run(ledger.stop("coder", now_ms=NOW))
    assert (refusal.reason, refusal.until_ms) == ("budget", TOMORROW)
    use(ledger, 50, agent="writer", now_ms=NOW + 1)
    assert asyncio.run(ledger.stop("writer", now_ms=NOW)).sentence.startswith("The budget of all agents")
    assert asyncio.run(ledger.stop("idle", now_ms=NOW)) is None  # it spends nothing
    assert asyncio.run(ledger.stop("coder", now_ms=TOMORROW)) is None
    put(conn, agent="writer", amount=0)
    assert asyncio.run(ledger.stop("writer", now_ms=TOMORROW)).reason == "budget"


def test_a_program_whose_model_has_no_price_is_stopped_by_a_budget_in_money(ledger, conn):
    use(ledger, 1000, model="grok")
    assert asyncio.run(ledger.stop("coder", now_ms=NOW)) is None  # nothing limits money
    put(conn, agent=None, amount=10**9, unit="money", period="month")
    for at_ms in (NOW, TOMORROW):
        refusal = asyncio.run(ledger.stop("coder", now_ms=at_ms))
        assert (refusal.reason, refusal.until_ms) == ("unpriced", None)
    assert "the model 'grok', so the budget of all agents" in refusal.sentence
    assert """POSTROOM_MODEL_PRICES='{"grok": {"input": 3, "output": 15}}'""" in refusal.sentence
    assert asyncio.run(ledger.stop("writer", now_ms=NOW)) is None, "another agent"


def test_a_price_or_another_program_lets_it_go_on(ledger, conn):
    put(conn, unit="money")
    use(ledger, 1000, model="grok")
    priced = Ledger(conn, None, GatewaySettings(model_prices={"grok": {"input": "1", "output": "1"}}), "UTC", None)
    assert asyncio.run(priced.stop("coder", now_ms=NOW)) is None
    with transaction(conn):
        conn.execute("UPDATE agents SET updated_at = ? WHERE id = 'coder'", (NOW + 1,))
    assert asyncio.run(ledger.stop("coder", now_ms=NOW + 1)) is None
    use(ledger, 1, paid_by="plan", model="grok", now_ms=NOW + 2)
    assert asyncio.run(ledger.stop("coder", now_ms=NOW + 2)) is None, "a plan costs no money"
