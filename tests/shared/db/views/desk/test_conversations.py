"""The conversations stand by what was said last, and chats and people are found by name."""

from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages
from shared.db.views.desk import conversations
from tests.support import NOW, answer, begin_epoch, make_chat, make_owner, put, row


def change(conn, sql, **values):
    with transaction(conn):
        rows(conn, sql, values)


def read(conn, limit=10):
    return [(each["platformId"], each["lastText"]) for each in conversations.latest(conn, limit=limit, now_ms=NOW)]


def test_the_chat_in_which_something_was_said_last_stands_first(conn):
    put(conn, "one", chat="100")
    put(conn, "two", chat="200", now_ms=NOW + 1)
    make_chat(conn, "300")
    assert read(conn) == [("200", "two"), ("100", "one"), ("300", None)]
    answer(conn, "an answer", chat="100", now_ms=NOW + 2)
    assert read(conn) == [("100", "an answer"), ("200", "two"), ("300", None)]
    assert read(conn, limit=1) == [("100", "an answer")]


def test_a_chat_counts_what_is_open_there_and_what_is_dead(conn):
    put(conn, "one")
    dead = put(conn, "two")
    change(conn, "UPDATE messages SET status = 'dead', failure = 'crashed' WHERE id = :id", id=dead)
    (place,) = conversations.latest(conn, limit=10, now_ms=NOW)
    assert (place["open"], place["dead"], place["lastBy"], place["isGroup"]) == (
        *(1, 1),
        row(conn, "messages", dead)["sender"],
        False,
    )


def test_what_is_planned_is_not_said_yet_and_what_is_tried_again_is(conn):
    put(conn, "said")
    planned, retried = put(conn, "tomorrow"), put(conn, "again")
    change(conn, "UPDATE messages SET process_after = :later WHERE id IN (:a, :b)", later=NOW + 9, a=planned, b=retried)
    change(conn, "UPDATE messages SET failure = 'network' WHERE id = :id", id=retried)
    (place,) = conversations.latest(conn, limit=10, now_ms=NOW)
    assert (place["lastText"], place["open"]) == ("again", 2)
    (place,) = conversations.latest(conn, limit=10, now_ms=NOW + 9)
    assert place["open"] == 3


def test_a_chat_that_was_quiet_for_long_comes_after_those_in_which_something_was_said(conn):
    quiet, busy = put(conn, "long ago", chat="100"), put(conn, "now", chat="200")
    change(conn, "UPDATE messages SET id = id + :far WHERE id = :id", far=conversations.LOOKED_AT + 9, id=busy)
    assert messages.find(conn, row(conn, "messages", quiet)["message_id"]) == quiet
    assert read(conn) == [("200", "now"), ("100", None)]


def test_what_was_said_before_a_restore_is_shown(conn):
    answer(conn, "an answer")
    begin_epoch(conn)
    answer(conn, "hello", chat="200", now_ms=NOW + 1)
    assert read(conn) == [("200", "hello"), ("100", "an answer")]


def test_chats_and_people_are_found_by_a_part_of_the_name_or_by_the_platforms_id(conn):
    make_owner(conn)
    chat = make_chat(conn, "-100200")
    change(conn, "UPDATE chats SET name = 'Sales 100%' WHERE id = :id", id=chat)
    other = make_chat(conn, "7")
    change(conn, "UPDATE chats SET name = 'Sales 1000' WHERE id = :id", id=other)
    change(conn, "UPDATE users SET name = 'Ana Banana'")

    def chats(words):
        return [each["id"] for each in conversations.find(conn, words, limit=9)["chats"]]

    assert chats("sales") == [other, chat]
    assert chats("100%") == [chat], "a sign of patterns is a sign"
    assert chats("-100200") == [chat]
    (person,) = conversations.find(conn, "banana", limit=9)["people"]
    assert (person["name"], person["chatId"]) == ("Ana Banana", None)
    assert conversations.find(conn, person["senderId"], limit=9)["people"] == [person]
    assert conversations.find(conn, "nobody", limit=9) == {"chats": [], "people": []}
