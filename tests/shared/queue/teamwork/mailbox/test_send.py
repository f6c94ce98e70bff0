"""Sending, replying, and the threads of both."""

import json

import apsw
import pytest

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows
from shared.queue.teamwork import mailbox
from tests.shared.queue.teamwork.mailbox.kit import reply, send
from tests.support import column, dump, put, row


def test_a_message_waits_in_the_recipients_mailbox_session(conn):
    first = row(conn, "messages", send(conn, "alice", "bob"))
    second = row(conn, "messages", send(conn, "carol", "bob", msg_type="task", urgency="urgent"))
    assert (first["channel"], first["agent"], first["from_agent"], first["sender"]) == (
        *("internal", "bob", "alice", "alice"),
    )
    assert first["message_id"].startswith("internal_")
    assert (first["status"], first["msg_type"], first["urgency"]) == ("pending", "message", "normal")
    assert (second["msg_type"], second["urgency"]) == ("task", "urgent")
    assert first["session_id"] == second["session_id"]
    assert rows(conn, "SELECT agent, chat_id, thread_id FROM sessions") == [("bob", None, None)]
    handoff = row(conn, "events", column(conn, "SELECT min(id) FROM events WHERE type = 'chain_handoff'")[0])
    assert (handoff["message_id"], handoff["agent"]) == (first["message_id"], "bob")
    assert json.loads(handoff["data"]) == {"from_agent": "alice", "hops": 0}


def test_the_operator_is_no_agent(conn):
    assert row(conn, "messages", send(conn, "operator", "bob"))["from_agent"] is None
    assert column(conn, "SELECT type FROM events") == []


@pytest.mark.parametrize(("sender", "recipient"), [("alice", "ghost"), ("ghost", "bob"), ("alice", "operator")])
def test_an_unknown_agent_neither_sends_nor_receives(conn, sender, recipient):
    before = dump(conn)
    with pytest.raises(NotFound, match=r"no agent .*; known: alice, assistant, bob, carol"):
        send(conn, sender, recipient)
    assert dump(conn) == before


def test_what_an_agent_repeats_of_its_prompt_reaches_nobody(conn):
    """The operator's words stay as they are."""
    repeated = '<message id="telegram_1a2b3c4d" sender="Ana" time="2027-01-15T08:00:00+00:00">a &lt; b</message>'
    first, second = send(conn, "alice", "bob", repeated), send(conn, "operator", "bob", repeated)
    assert [row(conn, "messages", each)["message"] for each in (first, second)] == ["a < b", repeated]
    assert row(conn, "messages", reply(conn, first, repeated).message)["message"] == "a < b"
    assert row(conn, "responses", reply(conn, second, repeated).response)["message"] == "a < b"


def test_an_agent_can_not_write_to_itself(conn):
    with pytest.raises(WrongState, match="'alice' writes to itself"):
        send(conn, "alice", "alice")


@pytest.mark.parametrize("odd", [{"msg_type": "shout"}, {"urgency": "very"}])
def test_unknown_kinds_are_not_stored(conn, odd):
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError):
        send(conn, "alice", "bob", **odd)
    assert dump(conn) == before


def test_replies_inherit_the_thread_and_return_to_the_sender(conn):
    root = send(conn, "alice", "bob", "one")
    send(conn, "carol", "bob", "another thread")
    second = reply(conn, root, "two").message
    third = reply(conn, second, "three", msg_type="status", urgency="urgent").message
    found = rows(conn, "SELECT id, agent, from_agent, reply_to, thread_root, msg_type, urgency FROM messages")
    assert found[2:] == [
        (second, "alice", "bob", root, root, "message", "normal"),
        (third, "bob", "alice", second, root, "status", "urgent"),
    ]
    for member in (root, second, third):
        assert [letter.message.message for letter in mailbox.thread(conn, member)] == ["one", "two", "three"]
    assert mailbox.thread(conn, 999) == []


def test_a_reply_quotes_its_message(conn):
    second = reply(conn, send(conn, "alice", "bob", "x" * 600)).message
    assert json.loads(row(conn, "messages", second)["content"])["reply_to"] == {"text": "x" * 500}


def test_a_reply_to_a_person_is_a_response_where_they_wrote(conn):
    put(conn, "question", agent="bob")
    sent = reply(conn, column(conn, "SELECT id FROM messages")[0], "answer")
    found = row(conn, "responses", sent.response)
    assert sent.message is None
    names = ("channel", "platform_id", "sender", "message", "original_message", "agent")
    assert [found[name] for name in names] == ["telegram", "100", "Ana", "answer", "question", "bob"]


def test_a_reply_to_the_operator_waits_to_be_fetched(conn):
    found = row(conn, "responses", reply(conn, send(conn, "operator", "bob")).response)
    assert (found["channel"], found["chat_id"], found["sender"], found["status"]) == (
        *("internal", None, "operator", "pending"),
    )


def test_a_reply_needs_an_existing_message(conn):
    with pytest.raises(NotFound, match="no message 999"):
        reply(conn, 999)
