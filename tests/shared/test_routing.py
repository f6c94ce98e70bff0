import pytest

from shared import routing
from shared.channels.base import Event
from shared.db import agents, chats, sessions, wirings
from shared.db.connection import rows, transaction
from tests.support import NOW, column, dump, make_agent, make_chat, plan, row, wire

SECRET = "what the person wrote"


def event(**fields):
    values = {"kind": "message", "event_key": "1", "platform_id": "100", "sender": "Ana", "sender_id": "5"}
    return Event(**{**values, "text": SECRET, "is_mention": True, **fields})


def store(conn, what, new_chats="refuse"):
    with transaction(conn):
        return routing.store(conn, "telegram", what, new_chats=new_chats, now_ms=NOW)


def test_a_message_to_a_wired_chat_is_stored_with_what_the_answer_needs(conn):
    wire(conn, make_chat(conn))
    reply_to = {"message_id": "9", "text": "before"}
    told = event(context={"token": "sealed"}, thread_id="7", platform_message_id="m1", is_group=True, reply_to=reply_to)
    assert store(conn, told) == routing.Routed(stored=1)
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
    assert store(conn, event()) == routing.Routed(stored=1)
    assert store(conn, event()) == routing.Routed(duplicates=1)
    make_agent(conn, "second")
    wire(conn, chat, "second")
    assert store(conn, event()) == routing.Routed(stored=1, duplicates=1)
    assert column(conn, "SELECT agent FROM messages ORDER BY id") == ["assistant", "second"]


def test_all_wirings_engage_the_most_important_first(conn):
    chat = make_chat(conn)
    make_agent(conn, "second")
    wire(conn, chat)
    wire(conn, chat, "second")
    with transaction(conn):
        rows(conn, "UPDATE wirings SET priority = 5 WHERE agent = 'second'")
    assert store(conn, event()).stored == 2
    assert column(conn, "SELECT agent FROM messages ORDER BY id") == ["second", "assistant"]


DROPPED = {
    "a chat that nobody wired": (event(platform_id="999"), "not_wired", ""),
    "a group that did not address the bot": (event(is_mention=False, is_group=True), "not_addressed", ""),
    "nothing said": (event(text=""), "empty", ""),
    "no conversation": (event(platform_id=None), "no_chat", ""),
    "a kind that asks for nothing": (event(kind="reaction"), "unsupported", "reaction"),
    "what the adapter gave up": (event(kind="ignore", reason="relay"), "relay", ""),
    "a command that the adapter refused": (
        event(kind="command", reason="unsupported:command"),
        "unsupported",
        "command",
    ),
    "a reason with a detail": (event(kind="ignore", reason="malformed:member"), "malformed", "member"),
}


@pytest.mark.parametrize(("what", "reason", "detail"), DROPPED.values(), ids=DROPPED)
def test_what_is_dropped_leaves_its_reason_once_and_never_the_text(conn, what, reason, detail):
    wire(conn, make_chat(conn))
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


def test_a_group_that_did_not_address_the_bot_is_context_where_the_wiring_wants_that(conn):
    chat = make_chat(conn, is_group=True)
    make_agent(conn, "second")
    wire(conn, chat, policy="accumulate")
    wire(conn, chat, "second", policy="drop")
    assert store(conn, event(is_mention=False, is_group=True)).stored == 1
    assert rows(conn, "SELECT agent, trigger FROM messages") == [("assistant", 0)]


NEW = {
    "a person": (event(platform_id="7"), "shared", "Ana"),
    "a group that addresses the bot": (event(platform_id="7", is_group=True, thread_id="3"), "per-thread", None),
}


@pytest.mark.parametrize(("what", "mode", "name"), NEW.values(), ids=NEW)
@pytest.mark.parametrize("known", [False, True], ids=["unknown chat", "known chat without wirings"])
def test_a_new_chat_is_wired_to_the_default_agent_where_the_operator_allows_it(conn, what, mode, name, known):
    if known:
        make_chat(conn, "7", is_group=what.is_group)
    assert store(conn, what, "wire").stored == 1
    assert rows(conn, "SELECT agent, session_mode FROM wirings") == [("assistant", mode)]
    if not known:
        assert row(conn, "chats")["name"] == name
    assert store(conn, what, "wire").duplicates == 1


def test_a_group_that_did_not_address_the_bot_is_not_wired_by_itself(conn):
    assert store(conn, event(platform_id="7", is_group=True, is_mention=False), "wire").dropped == "not_wired"
    assert chats.find(conn, "telegram", "7") is None


def test_without_a_default_agent_nothing_is_wired(conn):
    with transaction(conn):
        rows(conn, "UPDATE agents SET is_default = 0")
    assert agents.default(conn) is None
    assert store(conn, event(platform_id="7"), "wire").dropped == "not_wired"


A, B = {"platform_id": "100"}, {"platform_id": "200"}
GROUP = {"is_group": True, "thread_id": "7"}
SESSIONS = {
    "shared: the threads of a chat": ("shared", A | GROUP, A | GROUP | {"thread_id": "8"}, True),
    "shared: two chats": ("shared", A, B, False),
    "per-thread: the threads of a group": ("per-thread", A | GROUP, A | GROUP | {"thread_id": "8"}, False),
    "per-thread: the same thread": ("per-thread", A | GROUP, A | GROUP, True),
    "per-thread: the sub-threads of a direct chat": (
        "per-thread",
        A | {"thread_id": "7"},
        A | {"thread_id": "8"},
        True,
    ),
    "agent-shared: two chats": ("agent-shared", A, B, True),
}


@pytest.mark.parametrize(("mode", "one", "other", "is_same"), SESSIONS.values(), ids=SESSIONS)
def test_one_session_serves(conn, mode, one, other, is_same):
    for chat in ("100", "200"):
        wire(conn, make_chat(conn, chat), session_mode=mode)
    store(conn, event(**one))
    store(conn, event(**{**other, "event_key": "2"}))
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == (1 if is_same else 2)
    assert column(conn, "SELECT count(*) FROM messages") == [2]


def test_two_agents_of_a_chat_have_sessions_of_their_own(conn):
    chat = make_chat(conn)
    make_agent(conn, "second")
    wire(conn, chat)
    wire(conn, chat, "second")
    store(conn, event())
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == 2


def test_a_session_is_made_once_and_keeps_its_continuation(conn):
    chat = make_chat(conn)
    with transaction(conn):
        made = [sessions.ensure(conn, "assistant", chat, None, now_ms=NOW) for _ in range(2)]
        sessions.touch(conn, made[0], continuation="c1", now_ms=NOW)
        sessions.touch(conn, made[0], continuation=None, now_ms=NOW + 1)
    assert made[0] == made[1]
    assert sessions.get(conn, made[0]).continuation == "c1"
    assert sessions.get(conn, 999) is None


def test_chats_of_two_platforms_with_the_same_id_are_two(conn):
    assert make_chat(conn, "1", "telegram") != make_chat(conn, "1", "discord")
    with transaction(conn):
        assert chats.set_status(conn, "discord", "1", "inactive", now_ms=NOW)
        assert not chats.set_status(conn, "discord", "2", "inactive", now_ms=NOW)
    assert chats.find(conn, "discord", "1").status == "inactive"
    assert chats.find(conn, "telegram", "1").status == "active"


def test_the_wirings_of_a_place_are_found_by_indexes_and_sorted_in_no_table_of_their_own(conn):
    lines = plan(conn, wirings.OF_PLACE, channel="telegram", platform_id="1")
    assert len(lines) == 2
    assert all(line.startswith("SEARCH ") and " INDEX " in line for line in lines), lines


def test_of_several_wirings_the_most_important_comes_first_and_then_the_oldest(conn):
    chat = make_chat(conn, "1")
    for agent, priority in (("low", 0), ("high", 5), ("late", 5)):
        wire(conn, chat, make_agent(conn, agent))
        rows(
            conn, "UPDATE wirings SET priority = :priority WHERE agent = :agent", {"priority": priority, "agent": agent}
        )
    for found in (wirings.of_place(conn, "telegram", "1").wirings, wirings.of_chat(conn, chat)):
        assert [wiring.agent for wiring in found] == ["high", "late", "low"]
