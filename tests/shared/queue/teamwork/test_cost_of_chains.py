"""What one message may cost over all agents that work because of it."""

import asyncio

from shared.agents.answer_tags import ToTeammates
from shared.agents.base import Result, Used
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages
from shared.db.roster import teams
from shared.db.roster.teams import Team
from shared.db.spending import usage
from shared.db.spending.usage import Tokens, TurnName
from shared.db.views import spending, why_sentences
from shared.queue import turns
from shared.queue.teamwork import chains
from shared.queue.teamwork.chains import MailLimits
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.serving import environment
from tests.shared.turns.gateway.model_host import hosting, reply
from tests.shared.turns.run import scripted_provider
from tests.shared.turns.run.scripted_provider import dispatching, one_step
from tests.support import LEASE, NOW, column, make_agent, put, take, texts

RETRY = RetryPolicy(5, 1000, 1000, 0.0)
SAID = "SELECT message FROM responses ORDER BY id"
DOLLAR = MailLimits(dollars=1.0)
REASON = "the agents' work because of one message has cost $1.20, and $1.00 is the most"

__all__ = ["environment"]


def spend(conn, origin, *, money=0, tokens=0, turn="turn_x"):
    with transaction(conn):
        name = TurnName(turn, "assistant", "session_1", (), origin)
        usage.add(conn, name, "m", "key", Tokens(tokens), money, now_ms=NOW)


def ask(conn):
    """Ana asks; the assistant hands over to bob; the id of Ana's message."""
    row = put(conn, "why is it red?")
    claim = take(conn)
    with transaction(conn):
        tag = ToTeammates(("bob",), "find out", within_ms=60_000)
        turns.settle(conn, claim, [TurnReply("I ask Bob.", claim.asked[0], (tag,))], None, now_ms=NOW)
    return messages.id_of(conn, row)


def bobs_turn(conn):
    session = column(conn, "SELECT session_id FROM messages WHERE agent = 'bob' AND trigger = 1")[0]
    with transaction(conn):
        return claims.claim(conn, "bob", session, token="turn_b", now_ms=NOW, lease_ms=LEASE, limit=10)


def test_a_person_is_never_stopped_and_a_message_of_a_chain_is_when_it_cost_too_much(conn, team):
    origin = ask(conn)
    claim = bobs_turn(conn)
    assert chains.too_costly(conn, claim.asked, DOLLAR) is None
    spend(conn, origin, money=700_000)
    spend(conn, origin, money=500_000, turn="turn_y")
    assert chains.too_costly(conn, claim.asked, DOLLAR) == REASON
    assert chains.too_costly(conn, claim.asked, MailLimits()) is None
    put(conn, "and now?")
    assert chains.too_costly(conn, take(conn, token="t").asked, DOLLAR) is None


def test_tokens_count_where_money_does_not(conn, team):
    origin = ask(conn)
    spend(conn, origin, tokens=1000, money=None)
    claim = bobs_turn(conn)
    assert chains.too_costly(conn, claim.asked, MailLimits(tokens=1001)) is None
    why = chains.too_costly(conn, claim.asked, MailLimits(tokens=1000))
    assert why == "the agents' work because of one message has taken 1,000 tokens, and 1,000 is the most"


def stop(conn):
    claim = bobs_turn(conn)
    with transaction(conn):
        turns.fail(conn, claim, Failure(REASON, retryable=False, code="chain_cost"), RETRY, now_ms=NOW)


def test_the_person_at_the_origin_reads_one_notice_and_no_turn_follows(conn, team):
    ask(conn)
    stop(conn)
    assert column(conn, SAID) == ["I ask Bob.", f"The agents ended their work on this early: {REASON}."]
    found = rows(conn, "SELECT agent, status, failure FROM messages WHERE kind = 'chat' AND agent = 'bob'")
    assert found == [("bob", "dead", "chain_cost")]
    assert column(conn, "SELECT 1 FROM messages WHERE trigger = 1 AND status = 'pending'") == []


def test_its_deadline_wakes_nobody(conn, team):
    ask(conn)
    stop(conn)
    assert column(conn, "SELECT status FROM messages WHERE kind = 'system' AND trigger = 1") == ["cancelled"]


def test_each_agent_reads_it_once_with_its_next_turn(conn, team):
    ask(conn)
    stop(conn)
    notes = rows(conn, "SELECT agent, message FROM messages WHERE kind = 'system' AND trigger = 0 ORDER BY agent")
    assert [agent for agent, _ in notes] == ["assistant", "bob"]
    assert notes[0][1] == f"The work that you and bob did for each other has ended: {REASON}."
    assert notes[1][1].startswith(f"You had no turn for a message of assistant: {REASON}. It was:\nI ask Bob.")


def test_what_an_agent_would_hand_over_then_is_refused_and_told_once(conn, team):
    row = put(conn, "go")
    spend(conn, messages.id_of(conn, row), money=1_200_000)
    claim = take(conn)
    with transaction(conn):
        tags = tuple(ToTeammates(("bob",), text) for text in ("a", "b"))
        turns.settle(conn, claim, [TurnReply("I ask.", claim.asked[0], tags)], None, limits=DOLLAR, now_ms=NOW)
    assert column(conn, "SELECT 1 FROM messages WHERE agent = 'bob' AND trigger = 1") == []
    assert column(conn, SAID) == [f"The agents ended their work on this early: {REASON}.", "I ask."]


def test_the_story_of_a_message_has_the_cost_of_its_chain(conn, team):
    origin = ask(conn)
    spend(conn, origin, money=1_200_000, tokens=5000)
    of_ana, of_bob = (
        spending.of_chain(conn, row) for row in column(conn, "SELECT id FROM messages WHERE kind = 'chat'")
    )
    assert of_ana == of_bob
    assert of_ana == {
        **{"origin": origin, "messages": 1, "turns": 1, "tokens": 5000, "cost": 1_200_000, "endedAt": None},
    }
    assert why_sentences.of_chain(of_ana) == (
        f"Because of {origin} agents have sent each other 1 message, in 1 turn that took 5,000 tokens, for $1.2000."
    )
    stop(conn)
    assert why_sentences.of_chain(spending.of_chain(conn, 1)).endswith(" A limit ended that.")


def test_a_message_without_a_chain_has_none(conn):
    assert spending.of_chain(conn, put(conn)) is None


def test_two_agents_that_go_on_for_ever_are_ended_by_their_cost(conn, monkeypatch):
    """Each of their turns costs 400 tokens, which the program says itself; 1000 is the most."""
    monkeypatch.setenv("POSTROOM_CHAIN_TOKENS", "1000")
    ran = []

    async def script(turn):
        ran.append(turn.agent)
        yield Used("m", 400, 0)
        yield Result(f"[@{'bob' if turn.agent == 'coder' else 'coder'}: question {len(ran)}]")

    async def go():
        async with hosting(reply(500)) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            make_agent(conn, "bob", provider="scripted")
            with transaction(conn):
                teams.save(conn, Team("dev", "Dev", "coder", ("coder", "bob")), now_ms=NOW)
            async with dispatching() as service:
                for _ in range(12):
                    await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))
    assert 3 <= len(ran) <= 4
    notices = [each for each in column(conn, SAID) if each.startswith("The agents ended their work")]
    assert len(notices) == 1
    assert texts(take(conn, agent="coder", token="after")) == []
    origins = column(conn, "SELECT DISTINCT origin FROM usage")
    assert origins == [messages.id_of(conn, 1)]
