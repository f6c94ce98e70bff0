"""Commands in a chat."""

from dataclasses import replace

import pytest

from shared.conversation.routing.apply import Routed
from shared.db.engine.connection import rows, transaction
from shared.db.queue import sessions
from shared.db.roster import memory_lines
from shared.db.roster.memory_lines import LineAuthor, NewLine
from tests.shared.conversation.routing.router.kit import (
    ASK,
    NOBODY,
    OPEN,
    WIRE,
    asked,
    become,
    event,
    make_chat,
    reasons,
    said,
    store,
    unwire,
    wire,
)
from tests.support import NOW, column, row


@pytest.mark.parametrize("role", ["owner", "admin", "scoped"])
def test_clear_by_an_admin_starts_one_new_session(conn, role):
    become(conn, role)
    chat = make_chat(conn)
    wire(conn, chat)
    store(conn, event("hello"))
    (before,) = column(conn, "SELECT session_id FROM messages")
    for is_first in (True, False):
        assert store(conn, event("/clear", event_key="2")).said is is_first
    assert column(conn, "SELECT status FROM sessions ORDER BY id") == ["closed", "active"]
    store(conn, event("again", event_key="3"))
    assert column(conn, "SELECT session_id FROM messages ORDER BY id")[1] != before
    assert ["starts afresh" in text for text in said(conn)] == [True]
    assert reasons(conn) == [("command_done", "clear")]


@pytest.mark.parametrize("role", [NOBODY, "user", "member"])
@pytest.mark.parametrize("command", ["clear", "compact", "context", "cost", "files"])
def test_an_admin_command_of_another_sender_is_refused_with_a_sentence(conn, role, command):
    if role != NOBODY:
        become(conn, role)
    wire(conn, make_chat(conn, is_group=True))
    what = event(f"/{command}@bot now", command=command, is_group=True, platform_message_id="m1", thread_id="3")
    assert store(conn, what) == Routed(dropped=f"command_refused:{command}", said=True)
    assert store(conn, what).said is False
    assert asked(conn) == []
    assert column(conn, "SELECT count(*) FROM sessions") == [0]
    (text,) = said(conn)
    assert f"Only an admin of Assistant may use /{command}." in text
    assert "emulator pair" in text
    found = row(conn, "responses")
    assert (found["platform_id"], found["thread_id"], found["sender_id"]) == ("100", "3", "5")
    assert column(conn, "SELECT content ->> '$.reply_to' FROM responses") == ["m1"]


@pytest.mark.parametrize("text", ["/clearance", "/clear! now", "please /clear", "/clear@other_bot", "/compactly"])
def test_an_unknown_command_is_text(conn, text):
    wire(conn, make_chat(conn))
    assert store(conn, event(text)).stored == 1


@pytest.mark.parametrize("text", ["/compact", "/context now", "/cost", "/files", "/model x"])
def test_the_other_admin_commands_go_to_the_agent(conn, text):
    become(conn, "admin")
    wire(conn, make_chat(conn))
    assert store(conn, event(text)).stored == 1


@pytest.mark.parametrize(
    ("text", "done", "given"),
    [
        ("@my_bot /clear", ("command_done", "clear"), []),
        ("@my_bot /help", ("command_filtered", "help"), []),
        ("@my_bot /compact now", None, ["/compact now"]),
        ("@my_bot /clearance", None, ["/clearance"]),
        ("@my_bot hello", None, ["@my_bot hello"]),
    ],
)
def test_in_a_group_a_command_may_stand_behind_the_bots_name(conn, text, done, given):
    become(conn, "owner")
    wire(conn, make_chat(conn, is_group=True))
    store(conn, event(text, is_group=True, mention="@my_bot "))
    assert reasons(conn) == ([done] if done else [])
    assert column(conn, "SELECT message FROM messages") == given


def test_a_command_without_a_mention_in_a_group_is_context(conn):
    become(conn, "owner")
    wire(conn, make_chat(conn, is_group=True), ignored_message_policy="accumulate")
    assert store(conn, event("/clear", is_group=True, is_mention=False)) == Routed(stored=1)
    assert rows(conn, "SELECT message, trigger FROM messages") == [("/clear", 0)]


@pytest.mark.usefixtures("two")
def test_a_name_before_a_command_does_not_evade_its_check(conn):
    found = store(conn, event("@coder /clear"))
    assert (found.dropped, found.said) == ("command_refused:clear", True)
    become(conn, "scoped", agent="coder")
    assert store(conn, event("@coder /clear", event_key="2")).dropped is None
    assert "Coder starts afresh" in said(conn)[-1]


@pytest.mark.usefixtures("two")
def test_a_command_to_two_agents_is_answered_once_for_both(conn):
    become(conn, "scoped", agent="coder")
    assert store(conn, event("/clear")).said
    (text,) = said(conn)
    assert "Coder starts afresh" in text
    assert "Only an admin of Assistant" in text


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [("strict", (0, "sender_unknown", False)), ("request_approval", (0, "command_refused:clear", True))],
)
def test_a_strangers_command_asks_no_approver_and_is_answered_only_where_strangers_are(conn, policy, outcome):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy=policy))
    found = store(conn, event("/clear"))
    assert (found.held, found.dropped, found.said) == outcome
    assert column(conn, "SELECT count(*) FROM approvals") == [0]


def test_stop_ends_what_the_sender_asked_for_and_says_so_once(conn):
    wire(conn, make_chat(conn))
    store(conn, event("one"))
    store(conn, event("two", event_key="2"))
    found = store(conn, event("/stop", event_key="3", command="stop"))
    assert (found.changed, found.said, found.stored) == (2, True, 0)
    assert column(conn, "SELECT status FROM messages") == ["cancelled", "cancelled"]
    assert said(conn) == ["Stopped. 2 messages that waited are left out."]
    assert store(conn, event("/stop", event_key="3", command="stop")) == Routed()
    assert reasons(conn) == [("command_done", "stop")]


def test_stop_ends_what_an_agent_does_whose_wiring_is_gone(conn):
    chat = wire(conn, make_chat(conn)).chat_id
    store(conn, event("old", event_key="1"))
    store(conn, event("of another person", event_key="2", sender_id="6"))
    unwire(conn)
    wire(conn, chat, "helper")
    store(conn, event("/stop", event_key="3", command="stop"))
    assert said(conn) == ["Stopped. One message that waited is left out."]
    assert column(conn, "SELECT message FROM messages WHERE status = 'pending'") == ["of another person"]


@pytest.mark.parametrize("policy", [OPEN, ASK, WIRE], ids=["refuse", "ask", "wire"])
@pytest.mark.parametrize("is_owned", [False, True], ids=["no owner", "an owner"])
def test_stop_ends_what_an_agent_does_where_no_wiring_is_left(conn, policy, is_owned):
    if is_owned:
        become(conn, "owner", "9")
    wire(conn, make_chat(conn))
    store(conn, event("old", event_key="1"))
    store(conn, event("of another person", event_key="2", sender_id="6"))
    unwire(conn)
    assert store(conn, event("/stop", event_key="3"), policy) == Routed(changed=1, said=True)
    assert store(conn, event("/stop", event_key="3"), policy) == Routed()  # asks no owner, and wires nothing
    assert said(conn) == ["Stopped. One message that waited is left out."]
    assert reasons(conn) == [("command_done", "stop")]
    assert column(conn, "SELECT message FROM messages WHERE status = 'pending'") == ["of another person"]
    assert column(conn, "SELECT agent FROM wirings") == []


@pytest.mark.parametrize(("text", "works_for"), [("/stop", "6"), ("/clear", "5"), ("stop", "5")])
def test_nothing_but_a_stop_of_ones_own_is_done_where_no_wiring_is_left(conn, text, works_for):
    wire(conn, make_chat(conn))
    store(conn, event("one", sender_id=works_for))
    unwire(conn)
    assert store(conn, event(text, event_key="2")) == Routed(dropped="not_wired")
    assert said(conn) == []
    assert column(conn, "SELECT status FROM messages") == ["pending"]


def test_a_refused_person_stops_nothing_where_no_wiring_is_left(conn):
    wire(conn, make_chat(conn))
    store(conn, event("one"))
    unwire(conn)
    become(conn, "refused")
    assert store(conn, event("/stop", event_key="2")) == Routed(dropped="not_wired")
    assert column(conn, "SELECT status FROM messages") == ["pending"]


def test_stop_counts_against_the_limits_also_where_no_wiring_is_left(conn):
    limited = replace(OPEN, sender_limit=1)
    wire(conn, make_chat(conn))
    store(conn, event("one"), limited)
    unwire(conn)
    store(conn, event("/stop", event_key="2"), limited)
    assert reasons(conn) == [("rate_limited", "sender")]
    assert column(conn, "SELECT status FROM messages") == ["pending"]


def test_stop_of_a_person_who_has_nothing_there_says_so(conn):
    wire(conn, make_chat(conn))
    store(conn, event("one", sender_id="6"))
    store(conn, event("/stop", event_key="2"))
    assert said(conn) == ["There is nothing of yours to stop here."]
    assert column(conn, "SELECT status FROM messages") == ["pending"]


def test_stop_concerns_its_thread_alone(conn):
    wire(conn, make_chat(conn, is_group=True), session_mode="per-thread")
    store(conn, event("one", is_group=True, thread_id="1"))
    store(conn, event("two", event_key="2", is_group=True, thread_id="2"))
    store(conn, event("/stop", event_key="3", is_group=True, thread_id="2"))
    assert column(conn, "SELECT status FROM messages ORDER BY id") == ["pending", "cancelled"]


def test_a_refused_person_stops_nothing(conn):
    wire(conn, make_chat(conn))
    store(conn, event("one"))
    become(conn, "refused")
    assert store(conn, event("/stop", event_key="2")).dropped == "sender_refused"
    assert column(conn, "SELECT status FROM messages") == ["pending"]


def test_forget_deletes_what_the_agent_remembers_from_its_senders_messages_and_is_answered_once(conn):
    chat = make_chat(conn)
    wire(conn, chat)
    store(conn, event("hello"))
    mine, other = LineAuthor("telegram", "5", "Ana"), LineAuthor("telegram", "6", "Ben")
    with transaction(conn):
        for text, people in (("a", (mine,)), ("b", (other,)), ("ab", (mine, other))):
            new = NewLine(text, False, "turn_a", "m1", people)
            memory_lines.add(conn, sessions.known(conn, 1), new, now_ms=NOW)
    for is_first in (True, False):
        assert store(conn, event("/forget", event_key="2")).said is is_first
    assert column(conn, "SELECT text FROM memory_lines") == ["b"]
    store(conn, event("/forget", event_key="3"))
    assert said(conn) == [
        "Deleted: 2 lines of memory from your messages. This chat itself stays as it is.",
        "Nothing is remembered from your messages.",
    ]
    assert column(conn, "SELECT count(*) FROM messages") == [1]
