"""The session of a message."""

import pytest

from shared.db.engine.connection import rows
from shared.db.roster import sticky_threads
from tests.shared.conversation.routing.router.kit import IN_THREAD, NOBODY, become, event, make_chat, store, wire
from tests.support import column


def test_an_agent_that_was_mentioned_in_a_thread_answers_there_without_another_mention(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="mention-sticky")
    told = [
        store(conn, event(event_key="1", is_mention=False, **IN_THREAD)).dropped,
        store(conn, event(event_key="2", **IN_THREAD)).stored,
        store(conn, event(event_key="3", is_mention=False, **IN_THREAD)).stored,
        store(conn, event(event_key="4", is_mention=False, is_group=True, thread_id="8")).dropped,
        store(conn, event(event_key="5", is_mention=False, is_group=True)).dropped,
    ]
    assert told == ["not_addressed", 1, 1, "not_addressed", "not_addressed"]


def test_a_mention_outside_of_threads_does_not_stick(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="mention-sticky")
    assert store(conn, event(event_key="1", is_group=True)).stored == 1
    assert store(conn, event(event_key="2", is_group=True, is_mention=False)).dropped == "not_addressed"


def test_context_in_a_thread_does_not_make_it_stick(conn):
    chat = make_chat(conn, is_group=True)
    wire(conn, chat, engage_mode="mention-sticky", session_mode="per-thread", ignored_message_policy="accumulate")
    for key in ("1", "2"):
        store(conn, event(event_key=key, is_mention=False, **IN_THREAD))
    assert column(conn, "SELECT trigger FROM messages") == [0, 0]


@pytest.mark.parametrize(("policy", "role"), [("strict", NOBODY), ("request_approval", NOBODY), ("public", "refused")])
def test_a_mention_by_a_refused_sender_does_not_stick(conn, policy, role):
    wired = wire(conn, make_chat(conn, policy=policy, is_group=True), engage_mode="mention-sticky")
    if role != NOBODY:
        become(conn, role)
    store(conn, event(**IN_THREAD))
    assert not sticky_threads.has(conn, wired.id, "7")


def test_a_thread_id_is_ignored_on_a_platform_without_threads(conn):
    wire(conn, make_chat(conn, channel="sms", is_group=True), engage_mode="mention-sticky", session_mode="per-thread")
    store(conn, event(**IN_THREAD), channel="sms")
    assert rows(conn, "SELECT m.thread_id, s.thread_id FROM messages m JOIN sessions s ON s.id = m.session_id") == [
        (None, None)
    ]
    assert store(conn, event(event_key="2", is_mention=False, **IN_THREAD), channel="sms").dropped == "not_addressed"


A, B = {"platform_id": "100"}, {"platform_id": "200"}

SESSIONS = {
    "shared: the threads of a chat": ("shared", A | IN_THREAD, A | IN_THREAD | {"thread_id": "8"}, True),
    "shared: two chats": ("shared", A, B, False),
    "per-thread: the threads of a group": ("per-thread", A | IN_THREAD, A | IN_THREAD | {"thread_id": "8"}, False),
    "per-thread: the same thread": ("per-thread", A | IN_THREAD, A | IN_THREAD, True),
    "per-thread: the sub-threads of a direct chat": (
        "per-thread", A | {"thread_id": "7"}, A | {"thread_id": "8"}, True,
    ),
    "agent-shared: two chats": ("agent-shared", A, B, True),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "one", "other", "is_same"), SESSIONS.values(), ids=SESSIONS)
def test_the_session_mode_decides_which_messages_share_a_session(conn, mode, one, other, is_same):
    for chat in ("100", "200"):
        wire(conn, make_chat(conn, chat), session_mode=mode)
    store(conn, event(**one))
    store(conn, event(**{**other, "event_key": "2"}))
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == (1 if is_same else 2)
    assert column(conn, "SELECT count(*) FROM messages") == [2]


def test_an_agent_shared_session_is_never_that_of_a_thread(conn):
    wire(conn, make_chat(conn, "100", is_group=True), session_mode="per-thread")
    wire(conn, make_chat(conn, "200"), session_mode="agent-shared")
    store(conn, event(**IN_THREAD))
    store(conn, event(event_key="2", platform_id="200"))
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == 2


def test_two_agents_of_a_chat_have_separate_sessions(conn):
    chat = make_chat(conn)
    wire(conn, chat)
    wire(conn, chat, "second")
    store(conn, event())
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == 2
