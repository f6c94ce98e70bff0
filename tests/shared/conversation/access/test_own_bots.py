"""An agent's own bot, which a person makes with one tap."""

import json

import pytest

from shared.conversation.access import actions, own_bots, people
from shared.core.errors import ConfigInvalid, WrongState
from shared.db.access import users
from shared.db.engine.connection import transaction
from shared.db.roster import accounts, agents, chats
from tests.support import NOW, column, make_agent, row

ANA = "5000000001"


@pytest.fixture
def owner(conn):
    """Ana owns everything, and has written to the first bot."""
    with transaction(conn):
        ana = users.ensure(conn, "telegram", ANA, name="Ana", now_ms=NOW)
        people.grant(conn, ana.id, "owner", None, by="test", now_ms=NOW)
        chats.ensure(conn, "telegram", ANA, is_group=False, now_ms=NOW)
    return ana


def ask(conn, agent="clerk", now_ms=NOW):
    new = agents.get(conn, make_agent(conn, agent))
    with transaction(conn):
        return own_bots.ask(conn, "telegram", new, now_ms=now_ms)


def made(conn, owner_id=ANA, bot="777", now_ms=NOW + 1):
    with transaction(conn):
        return own_bots.record(conn, "telegram", owner_id, bot, "clerk_bot", now_ms=now_ms)


def ready(conn, now_ms=NOW + 2):
    with transaction(conn):
        account = accounts.known(conn, "telegram.clerk")
        own_bots.activate(conn, account, username="clerk_bot", now_ms=now_ms)


def test_an_owner_is_asked_with_a_button_that_makes_the_bot(conn, owner):
    assert "telegram 5000000001 (Ana) is asked" in ask(conn)
    said = row(conn, "responses")
    assert (said["channel"], said["platform_id"]) == ("telegram", ANA)
    number, name, username = json.loads(said["content"])["bot_request"]
    assert 0 < number < 2**31
    assert (name, username.startswith("clerk_"), username.endswith("_bot")) == ("Clerk", True, True)
    found = accounts.known(conn, "telegram.clerk")
    assert (found.status, found.agent, found.manager, found.owner_id) == ("wanted", "clerk", "telegram", ANA)
    assert not accounts.is_there(conn, "telegram.clerk")


def test_a_tap_gives_the_account_its_bot_and_a_redelivery_changes_nothing(conn, owner):
    ask(conn)
    assert made(conn)
    found = accounts.known(conn, "telegram.clerk")
    assert (found.status, found.bot_id, found.retry_at) == ("given", "777", NOW + 1)
    assert made(conn, now_ms=NOW + 5)
    assert accounts.known(conn, "telegram.clerk") == found


def test_a_bot_that_nobody_asked_this_person_for_is_not_taken(conn, owner):
    assert not made(conn)
    ask(conn)
    assert not made(conn, owner_id="666")
    assert accounts.known(conn, "telegram.clerk").status == "wanted"


def test_a_bot_that_is_ready_answers_its_owner_and_says_where(conn, owner):
    ask(conn)
    made(conn)
    ready(conn)
    found = accounts.known(conn, "telegram.clerk")
    assert (found.status, found.username, found.retry_at, found.failure) == ("active", "clerk_bot", None, None)
    wired = "SELECT c.channel || ' ' || c.platform_id || ' ' || w.agent FROM wirings w JOIN chats c ON c.id = w.chat_id"
    assert column(conn, wired) == [f"telegram.clerk {ANA} clerk"]
    assert column(conn, "SELECT message FROM responses ORDER BY id")[-1] == (
        "Your bot is ready. Open https://t.me/clerk_bot and press Start."
    )
    ready(conn, now_ms=NOW + 3)
    assert len(column(conn, "SELECT id FROM responses")) == 2


def test_a_changed_token_is_fetched_again_without_a_word(conn, owner):
    ask(conn)
    made(conn)
    ready(conn)
    assert made(conn, now_ms=NOW + 100_000)
    found = accounts.known(conn, "telegram.clerk")
    assert (found.status, found.retry_at) == ("active", NOW + 100_000)
    ready(conn, now_ms=NOW + 100_001)
    assert accounts.known(conn, "telegram.clerk").retry_at is None
    assert len(column(conn, "SELECT id FROM responses")) == 2


def test_a_set_up_that_failed_is_tried_again_after_growing_pauses(conn, owner):
    ask(conn)
    made(conn)
    waits = []
    for _ in range(12):
        with transaction(conn):
            own_bots.postpone(conn, accounts.known(conn, "telegram.clerk"), "no", now_ms=NOW)
        waits.append(accounts.known(conn, "telegram.clerk").retry_at - NOW)
    assert waits[:3] == [5_000, 10_000, 20_000]
    assert waits[-1] == 3_600_000
    assert accounts.known(conn, "telegram.clerk").failure == "no"


def test_a_second_agent_of_the_same_name_gets_a_word_of_its_own(conn, owner):
    ask(conn)
    ask(conn, "clerk", now_ms=NOW + 1)
    assert [each.name for each in accounts.every(conn)] == ["telegram.clerk", "telegram.clerk2"]
    made(conn)
    assert accounts.known(conn, "telegram.clerk2").status == "given"  # the one that was asked for last


def test_without_somebody_to_tap_it_is_refused_in_words(conn):
    with pytest.raises(WrongState, match="no owner or admin has a direct chat"), transaction(conn):
        own_bots.check(conn, "telegram")


@pytest.mark.parametrize(
    ("manager", "words"), [("discord", "can't make others"), ("telegram.gone", "no account"), ("api", "no account")]
)
def test_an_account_that_makes_no_bots_is_refused_in_words(conn, manager, words):
    with pytest.raises(ConfigInvalid, match=words):
        own_bots.check(conn, manager)


def test_an_approved_create_agent_ends_with_the_question_for_its_bot(conn, owner):
    wanted = actions.get("create_agent")
    with transaction(conn):
        checked = wanted.check(conn, "assistant", {"name": "Night Shift", "instructions": "", "own_bot": "telegram"})
        sentence = wanted.do(conn, "assistant", checked, now_ms=NOW)
    assert "Agent night-shift is created" in sentence
    assert sentence.endswith("is asked to make its bot, telegram.night_shift, with one tap.")
    assert accounts.known(conn, "telegram.night_shift").agent == "night-shift"


def test_a_create_agent_whose_bot_nobody_can_make_is_refused_before_anybody_is_asked(conn):
    with pytest.raises(WrongState, match="no owner or admin"):
        actions.get("create_agent").check(conn, "assistant", {"name": "Bob", "own_bot": "telegram"})
