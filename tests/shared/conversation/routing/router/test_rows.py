"""What the router stores, and for whom."""

import pytest

from shared.channels.base import Event
from shared.conversation.routing import router
from shared.conversation.routing.apply import Routed
from shared.core.policy import AccessPolicy
from shared.db.engine.connection import rows, transaction
from shared.db.queue import sessions
from shared.db.roster import chats
from tests.forks import outcomes
from tests.shared.conversation.routing.router.kit import (
    SECRET,
    WIRE,
    asked,
    become,
    event,
    make_chat,
    reasons,
    store,
    wire,
)
from tests.support import NOW, column, dump, row


@pytest.mark.parametrize("is_wired", [True, False])
def test_a_new_group_title_is_stored_and_destinations_keep_their_names(conn, is_wired):
    store(conn, event(is_group=True, chat_name="Lunch"), WIRE)
    if not is_wired:
        rows(conn, "DELETE FROM wirings")
    called = rows(conn, "SELECT name, target_chat FROM destinations")
    for key, title, name in (("2", "Dinner", "Dinner"), ("3", "", "Dinner"), ("4", "Dinner", "Dinner")):
        store(conn, event(event_key=key, is_group=True, chat_name=title, is_mention=False), at=NOW + int(key))
        assert rows(conn, "SELECT name, updated_at FROM chats") == [(name, NOW + 2)]
    assert rows(conn, "SELECT name, target_chat FROM destinations") == called


def test_a_direct_chat_keeps_its_name_when_the_sender_changes_theirs(conn):
    store(conn, event(), WIRE)
    store(conn, event(event_key="2", sender="Your bank"), WIRE)
    assert column(conn, "SELECT name FROM chats") == ["Ana"]


def test_a_message_to_a_wired_chat_is_stored_with_what_the_answer_needs(conn):
    wire(conn, make_chat(conn))
    reply_to = {"message_id": "9", "text": "before"}
    told = event(context={"token": "sealed"}, thread_id="7", platform_message_id="m1", is_group=True, reply_to=reply_to)
    assert store(conn, told) == Routed(stored=1)
    found = row(conn, "messages")
    assert found["message_id"].startswith("telegram_")
    names = (
        "channel",
        "platform_id",
        "thread_id",
        "platform_message_id",
        "event_key",
        "sender",
        "sender_id",
        "message",
    )
    assert [found[name] for name in names] == ["telegram", "100", "7", "m1", "1", "Ana", "5", SECRET]
    assert column(conn, "SELECT content ->> '$.context.token' FROM messages") == ["sealed"]


def test_a_redelivery_is_stored_for_the_agent_that_missed_it_and_for_no_other(conn):
    chat = make_chat(conn)
    wire(conn, chat)
    assert store(conn, event()) == Routed(stored=1)
    assert store(conn, event()) == Routed(duplicates=1)
    wire(conn, chat, "second")
    assert store(conn, event()) == Routed(stored=1, duplicates=1)
    assert asked(conn) == ["assistant", "second"]


def test_all_wirings_engage_in_order_of_priority(conn):
    chat = make_chat(conn)
    wire(conn, chat)
    wire(conn, chat, "second", priority=5)
    assert store(conn, event()).stored == 2
    assert asked(conn) == ["second", "assistant"]


DROPPED = {
    "a chat without a wiring": (event(platform_id="999"), "not_wired", ""),
    "a group that did not address the bot": (event(is_mention=False, is_group=True), "not_addressed", ""),
    "nothing said": (event(text=""), "empty", ""),
    "no conversation": (event(platform_id=None), "no_chat", ""),
    "a kind that asks for nothing": (event(kind="reaction"), "unsupported", "reaction"),
    "an event that the adapter ignores": (event(kind="ignore", reason="relay"), "relay", ""),
    "a command that the adapter refused": (
        event(kind="command", reason="unsupported:command"), "unsupported", "command",
    ),
    "a reason with a detail": (event(kind="ignore", reason="malformed:member"), "malformed", "member"),
    "a chat where an owner wants no agent": (event(platform_id="unwanted"), "chat_refused", ""),
    "a program's own command": (event("/help me"), "command_filtered", "help"),
}  # fmt: skip


@pytest.mark.parametrize(("what", "reason", "detail"), DROPPED.values(), ids=DROPPED)
def test_a_dropped_event_leaves_its_reason_once_and_never_its_text(conn, what, reason, detail):
    wire(conn, make_chat(conn))
    unwanted = make_chat(conn, "unwanted")
    with transaction(conn):
        chats.update(conn, unwanted, refused_at=NOW, now_ms=NOW)
    before = len(column(conn, "SELECT id FROM chats"))
    for _ in range(2):
        assert store(conn, what).dropped == ":".join(filter(None, (reason, detail)))
    assert rows(conn, "SELECT channel, reason, detail, event_key FROM dropped") == [("telegram", reason, detail, "1")]
    assert SECRET not in str(dump(conn))
    assert column(conn, "SELECT id FROM messages") == []
    assert len(column(conn, "SELECT id FROM chats")) == before


def test_attachments_alone_are_a_message(conn):
    wire(conn, make_chat(conn))
    assert store(conn, event(text="", attachments=({"kind": "photo", "file_id": "f"},))).stored == 1
    assert column(conn, "SELECT files ->> '$[0].kind' FROM messages") == ["photo"]


def test_a_group_message_without_a_mention_is_context_where_the_wiring_accumulates(conn):
    chat = make_chat(conn, is_group=True)
    wire(conn, chat, ignored_message_policy="accumulate")
    wire(conn, chat, "second", ignored_message_policy="drop")
    assert store(conn, event(is_mention=False, is_group=True)).stored == 1
    assert rows(conn, "SELECT agent, trigger FROM messages") == [("assistant", 0)]


def test_a_wiring_with_an_invalid_pattern_does_not_stop_the_others(conn):
    chat = make_chat(conn)
    wire(conn, chat, "broken", engage_mode="pattern", engage_pattern=".", priority=9)
    wire(conn, chat)
    with transaction(conn):
        rows(conn, "UPDATE wirings SET engage_pattern = '(' WHERE agent = 'broken'")
    assert store(conn, event()) == Routed(stored=1, dropped="wiring_failed:broken")
    assert asked(conn) == ["assistant"]
    assert reasons(conn) == [("wiring_failed", "broken")]


def test_a_wiring_that_fails_leaves_no_row_and_does_not_stop_the_others(conn):
    chat = make_chat(conn)
    for agent, priority in (("first", 9), ("broken", 5), ("assistant", 0)):
        wire(conn, chat, agent, priority=priority)
    rows(
        conn,
        """
        CREATE TEMP TRIGGER breaks BEFORE INSERT ON messages WHEN NEW.agent = 'broken'
        BEGIN SELECT RAISE(ABORT, 'broken'); END
        """,
    )
    assert store(conn, event()) == Routed(stored=2, dropped="wiring_failed:broken")
    assert asked(conn) == ["first", "assistant"]
    assert column(conn, "SELECT count(*) FROM sessions WHERE agent = 'broken'") == [0]
    rows(conn, "DROP TRIGGER breaks")
    assert store(conn, event()) == Routed(stored=1, duplicates=2)
    assert asked(conn) == ["first", "assistant", "broken"]


def test_a_known_senders_direct_chat_is_remembered(conn):
    user = become(conn, "member", channel="discord")
    chat = make_chat(conn, channel="discord")
    wire(conn, chat)
    wire(conn, make_chat(conn, "200", channel="discord", is_group=True))
    for what in (event(event_key="1"), event(event_key="2", platform_id="200", is_group=True)):
        store(conn, what, channel="discord")
    assert rows(conn, "SELECT user_id, chat_id FROM user_dms") == [(user.id, chat)]


def store_hello(connection, key, new_chats):
    """How many messages the event with this key stored, and how many duplicates."""
    said = Event("message", key, platform_id="100", sender="Ana", sender_id="5" + key, text="hello", is_mention=True)
    with transaction(connection):
        routed = router.route(connection, "telegram", said, AccessPolicy(new_chats=new_chats), now_ms=NOW)
    return routed.stored, routed.duplicates


def at_once(db, keys, new_chats="refuse"):
    """One process for each event key, all at once; how many messages each stored, and how many duplicates."""
    return sorted(outcomes(db, store_hello, [(key, new_chats) for key in keys]))


def test_twenty_first_messages_at_once_create_one_chat_one_wiring_and_one_session(conn, db):
    found = at_once(db, list(map(str, range(20))), new_chats="wire")
    assert found == [(1, 0)] * 20
    counts = [
        column(conn, f"SELECT count(*) FROM {table}")[0] for table in ("chats", "wirings", "sessions", "messages")
    ]
    assert counts == [1, 1, 1, 20]
    assert column(conn, "SELECT count(*) FROM destinations") == [1]


def test_an_event_delivered_many_times_at_once_is_one_row_for_each_agent_and_serves_one_that_missed_it(conn, db):
    chat = make_chat(conn)
    wire(conn, chat)
    wire(conn, chat, "second")
    found = at_once(db, ["1"] * 12)
    assert found == [(0, 2)] * 11 + [(2, 0)]
    wire(conn, chat, "third")
    found = at_once(db, ["1"] * 8)
    assert found == [(0, 3)] * 7 + [(1, 2)]
    assert asked(conn) == ["assistant", "second", "third"]


def test_strangers_who_write_at_once_leave_one_card(conn, db):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    assert at_once(db, list(map(str, range(12)))) == [(0, 0)] * 12
    assert column(conn, "SELECT count(*) FROM held") == [12]
    assert column(conn, "SELECT count(*) FROM responses WHERE platform_id = '9'") == [1]


def test_a_session_keeps_its_continuation(conn):
    chat = make_chat(conn)
    with transaction(conn):
        made = [sessions.ensure(conn, "assistant", chat, None, now_ms=NOW) for _ in range(2)]
        sessions.touch(conn, made[0], continuation="c1", now_ms=NOW)
        sessions.touch(conn, made[0], continuation=None, now_ms=NOW + 1)
    assert made[0] == made[1]
    assert sessions.get(conn, made[0]).continuation == "c1"
