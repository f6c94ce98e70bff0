"""The provider that ``auto`` stands for."""

import asyncio

import pytest

from shared.db.engine.group_commit import Writer
from shared.db.roster import agents
from shared.turns.gateway.readiness import Readiness
from shared.turns.run import auto_provider
from tests.support import column, make_agent, put, take

NOTHING = Readiness("echo", None, "claude: not there")


@pytest.fixture
def claim(conn):
    make_agent(conn, "bot", provider="auto")
    put(conn, agent="bot")
    return take(conn, agent="bot")


def choose(conn, db, claim, found):
    async def go():
        writer = Writer(db)
        try:
            return await auto_provider.agent_of(conn, writer, claim, lambda: found)
        finally:
            writer.close()

    return asyncio.run(go()).provider


def test_what_is_chosen_stays_and_the_story_of_the_message_tells_it(conn, db, claim):
    assert choose(conn, db, claim, Readiness("claude")) == "claude"
    assert choose(conn, db, claim, Readiness("codex")) == "claude"
    found = column(conn, "SELECT message_id || data FROM events WHERE type = 'provider_chosen'")
    assert found == [claim.asked[0].message_id + '{"provider": "claude"}']


def test_nothing_is_kept_while_nothing_can_work(conn, db, claim):
    assert choose(conn, db, claim, NOTHING) == "auto"
    assert choose(conn, db, claim, Readiness("claude")) == "claude"


def test_another_provider_is_left_alone(conn, db, claim):
    with conn:
        conn.execute("UPDATE agents SET provider = 'command' WHERE id = 'bot'")
    assert choose(conn, db, claim, Readiness("claude")) == "command"


def test_an_operators_change_of_the_provider_begins_the_choice_anew(conn, db, claim):
    choose(conn, db, claim, Readiness("claude"))
    make_agent(conn, "bot", provider="echo")
    make_agent(conn, "bot", provider="auto")
    assert choose(conn, db, claim, Readiness("codex")) == "codex"


def test_a_change_of_something_else_keeps_the_choice(conn, db, claim):
    choose(conn, db, claim, Readiness("claude"))
    make_agent(conn, "bot", instructions="Be kind.", provider="auto")
    assert agents.get(conn, "bot").chosen_provider == "claude"
