import pytest

from shared.core.errors import ConfigInvalid, NotFound
from shared.db.engine.connection import transaction
from shared.db.roster import agents
from shared.roster import accounts
from tests.support import NOW, make_agent


@pytest.fixture
def clerk(conn):
    """A second agent, which is not the default one."""
    make_agent(conn, "clerk")


def test_an_account_is_added_for_all_agents_or_for_one(conn, clerk):
    with transaction(conn):
        assert accounts.add(conn, "telegram", "sales", now_ms=NOW).name == "telegram.sales"
        assert accounts.add(conn, "discord", "clerk", agent="clerk", now_ms=NOW).agent == "clerk"


def test_new_chats_of_an_account_belong_to_the_agent_whose_bot_it_is(conn, clerk):
    with transaction(conn):
        accounts.add(conn, "telegram", "clerk", agent="clerk", now_ms=NOW)
    assert accounts.default_agent(conn, "telegram.clerk").id == "clerk"
    assert accounts.default_agent(conn, "telegram") == agents.default(conn)
    with transaction(conn):
        accounts.set_agent(conn, "telegram.clerk", None, now_ms=NOW)
        accounts.set_agent(conn, "telegram", "clerk", now_ms=NOW)
    assert accounts.default_agent(conn, "telegram.clerk") == agents.default(conn)
    assert accounts.default_agent(conn, "telegram").id == "clerk"


@pytest.mark.parametrize(
    ("platform", "word", "agent", "error", "words"),
    [
        ("pigeon", "loft", None, ConfigInvalid, "known: discord, "),
        ("telegram", "", None, ConfigInvalid, "first account"),
        ("telegram", "No", None, ConfigInvalid, "can't name an account"),
        ("telegram", "sales", "nobody", NotFound, "nobody"),
    ],
)
def test_what_can_not_be_added_is_refused_in_words(conn, platform, word, agent, error, words):
    with pytest.raises(error, match=words), transaction(conn):
        accounts.add(conn, platform, word, agent=agent, now_ms=NOW)


def test_only_an_account_that_is_there_gets_an_agent(conn):
    with pytest.raises(NotFound, match="accounts"), transaction(conn):
        accounts.set_agent(conn, "telegram.gone", "assistant", now_ms=NOW)
    with pytest.raises(NotFound, match="agents"), transaction(conn):
        accounts.set_agent(conn, "telegram", "nobody", now_ms=NOW)
