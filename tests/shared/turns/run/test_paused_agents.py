import json

import pytest

from shared.conversation.access import people
from shared.core.failures import PAUSING
from shared.db.access import users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agent_pauses
from shared.queue import replies, spoken, turns
from shared.queue.turns import Failure, RetryPolicy
from shared.turns.run import paused_agents
from tests.support import NOW, column, make_agent, put, take, texts

POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
LOGIN = Failure("401: OAuth token of ana@example.org has expired", code="auth")
HOUR = 3_600_000


def fail(conn, failure=LOGIN, now_ms=NOW, token="turn_a"):
    claim = take(conn, token=token, now_ms=now_ms)
    with transaction(conn):
        turns.fail(conn, claim, failure, POLICY, now_ms=now_ms)


def look(conn, now_ms=NOW):
    with transaction(conn):
        paused_agents.tell_and_end(conn, now_ms=now_ms)


def said(conn):
    return rows(conn, "SELECT chat_id, message FROM responses ORDER BY id")


@pytest.fixture
def owner(conn):
    """The owner, who has a direct chat; its row."""
    with transaction(conn):
        user = users.ensure(conn, "telegram", "9", name="Olga", now_ms=NOW)
        people.grant(conn, user.id, "owner", None, by="test", now_ms=NOW)


@pytest.mark.parametrize("code", sorted(PAUSING))
def test_a_failure_of_the_agent_pauses_it_and_costs_no_attempt(conn, code):
    put(conn, "question")
    fail(conn, Failure("it can't", code=code))
    assert agent_pauses.paused(conn)["assistant"].code == code
    assert rows(conn, "SELECT status, failure, retry_count FROM messages") == [("pending", code, 0)]
    assert take(conn, token="turn_b", now_ms=NOW + 10 * HOUR) is None


def test_each_chat_is_told_once_in_our_own_words(conn):
    put(conn, "question")
    put(conn, "elsewhere", chat="200")
    fail(conn)
    for _ in range(2):
        look(conn)
        put(conn, "and another")
    waits = (
        "The agent can't answer at the moment, and its operator knows. Your message waits, and is answered when it can."
    )
    assert said(conn) == [(1, waits), (2, waits)]
    (facts, *_) = rows(conn, "SELECT in_reply_to, agent, metadata FROM responses")
    assert facts == (None, None, json.dumps({"notice": "agent_paused"}))
    assert column(conn, "SELECT count(*) FROM agent_messages") == [0]


def test_the_end_is_told_in_the_agents_zone_and_the_agent_goes_on_by_itself_in_order(conn):
    make_agent(conn, "assistant", timezone="Europe/Zurich")
    put(conn, "question")
    fail(conn, Failure("you've hit your limit", code="quota", until_ms=NOW + 4 * HOUR))
    put(conn, "and another")
    look(conn)
    assert said(conn) == [
        (1, "The agent can't answer until 13:00 (Europe/Zurich). Your message waits, and is answered then.")
    ]
    look(conn, NOW + 4 * HOUR - 1)
    assert take(conn, token="turn_b", now_ms=NOW + 4 * HOUR) is None
    look(conn, NOW + 4 * HOUR)
    assert texts(take(conn, token="turn_b", now_ms=NOW + 4 * HOUR)) == ["question", "and another"]


def test_the_operator_is_told_once_with_the_reason_and_the_way_on(conn, owner):
    put(conn, "question")
    fail(conn)
    look(conn)
    look(conn)
    mine = [text for (text,) in rows(conn, "SELECT message FROM responses WHERE platform_id = '9'")]
    assert len(mine) == 1
    assert "has expired" in mine[0]
    assert "emulator agents resume assistant" in mine[0]


def test_another_agent_and_a_schedule_are_told_nothing(conn):
    put(conn, "daily", kind="task")
    fail(conn)
    look(conn)
    assert said(conn) == []


def test_a_pause_after_the_turn_had_spoken_ends_its_message_all_the_same(conn):
    put(conn, "question")
    claim = take(conn)
    new = replies.response(claim.asked[0], "on my way", agent=claim.agent, session_id=claim.session_id)
    with transaction(conn):
        spoken.say(conn, claim, new, key="c", now_ms=NOW)
        turns.fail(conn, claim, LOGIN, POLICY, now_ms=NOW)
    assert rows(conn, "SELECT status, failure FROM messages") == [("dead", "auth")]
    assert list(agent_pauses.paused(conn)) == ["assistant"]


def test_the_pause_is_an_event_without_the_persons_text(conn):
    put(conn, "question")
    fail(conn)
    ((data,),) = rows(conn, "SELECT data FROM events WHERE type = 'agent_paused'")
    assert json.loads(data)["code"] == "auth"
    assert "question" not in data
