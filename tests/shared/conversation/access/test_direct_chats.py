"""Where a person is written to: the direct chat, remembered, opened or moved."""

import pytest

from shared.conversation.access import people
from shared.db.access import user_dms, users
from shared.db.engine.connection import transaction
from shared.db.roster import chats
from tests.shared.conversation.access.known_people import person
from tests.support import NOW, answer, column, make_chat, row


def direct(conn, user, now_ms=NOW):
    with transaction(conn):
        return people.direct_chat(conn, user, now_ms=now_ms)


def test_a_direct_chat_named_after_the_user_is_created_strict(conn):
    ana = person(conn)
    chat = chats.get(conn, direct(conn, ana))
    assert chat[1:] == ("telegram", "5", False, "active", "strict", None, "Ana", None, NOW)
    assert direct(conn, ana, NOW + 1) == chat.id
    assert user_dms.get(conn, ana.id) == chat.id
    assert column(conn, "SELECT count(*) FROM chats") == [1]


def test_an_existing_direct_chat_is_used_as_it_is(conn):
    known = make_chat(conn, "5")
    with transaction(conn):
        chats.update(conn, known, sender_policy="public", now_ms=NOW)
    assert direct(conn, person(conn)) == known
    assert chats.get(conn, known).sender_policy == "public"


def test_a_direct_chat_that_the_platform_is_yet_to_open_says_for_whom(conn):
    bob = person(conn, "9", "discord", "Bob")
    chat = chats.get(conn, direct(conn, bob))
    assert (chat.platform_id, chat.opens_for, chat.is_group) == ("user/9", "9", False)
    assert direct(conn, bob) == chat.id


def test_the_remembered_direct_chat_is_used(conn):
    bob = person(conn, "9", "discord", "Bob")
    seen = make_chat(conn, "D1", "discord")
    with transaction(conn):
        people.remember_direct_chat(conn, bob.id, seen, NOW)
    assert direct(conn, bob) == seen
    assert column(conn, "SELECT count(*) FROM chats") == [1]


@pytest.mark.parametrize("cached", [True, False])
def test_a_user_who_blocked_the_bot_has_no_direct_chat(conn, cached):
    ana = person(conn)
    chat = direct(conn, ana) if cached else make_chat(conn, "5")
    with transaction(conn):
        chats.update(conn, chat, status="inactive", now_ms=NOW)
    assert direct(conn, ana) is None


@pytest.mark.parametrize("channel", ["api", "chatroom", "signal"])
def test_an_unknown_channel_has_no_direct_chats(conn, channel):
    assert direct(conn, person(conn, channel=channel)) is None
    assert column(conn, "SELECT count(*) FROM chats") == [0]


def test_remembering_the_same_direct_chat_writes_nothing(conn):
    ana, chat = person(conn), make_chat(conn, "5")
    with transaction(conn):
        people.remember_direct_chat(conn, ana.id, chat, NOW)
    before = conn.total_changes()
    with transaction(conn):
        people.remember_direct_chat(conn, ana.id, chat, NOW + 1)
    assert conn.total_changes() == before


def test_responses_in_a_provisional_chat_move_to_the_real_one(conn):
    bob = person(conn, "9", "discord", "Bob")
    unopened, seen = direct(conn, bob), make_chat(conn, "D1", "discord")
    response = answer(conn, "a card", chat="user/9", channel="discord")
    with transaction(conn):
        people.remember_direct_chat(conn, bob.id, seen, NOW)
    assert row(conn, "responses", response)["chat_id"] == seen
    assert row(conn, "responses", response)["platform_id"] == "D1"
    assert direct(conn, bob) == seen
    assert chats.get(conn, unopened).status == "inactive"


def test_a_user_who_returns_is_reached_although_their_chat_was_merged(conn):
    bob = person(conn, "9", "discord", "Bob")
    unopened, seen = direct(conn, bob), make_chat(conn, "D1", "discord")
    with transaction(conn):
        people.remember_direct_chat(conn, bob.id, seen, NOW)
        users.delete(conn, bob.id)
    assert direct(conn, person(conn, "9", "discord", "Bob"), NOW + 1) == unopened
    assert chats.get(conn, unopened)[4:9] == ("active", "strict", None, "Bob", "9")


def test_a_group_that_writes_as_itself_has_no_direct_chat(conn):
    make_chat(conn, "-100", is_group=True)
    assert direct(conn, person(conn, "-100")) is None


def test_remembering_another_chat_leaves_the_open_one_as_it_is(conn):
    ana = person(conn)
    before, seen = direct(conn, ana), make_chat(conn, "77")
    answer(conn, "a card", chat="5")
    with transaction(conn):
        people.remember_direct_chat(conn, ana.id, seen, NOW)
    assert direct(conn, ana) == seen
    assert chats.get(conn, before).status == "active"
    assert column(conn, "SELECT chat_id FROM responses") == [before]
