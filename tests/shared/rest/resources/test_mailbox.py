"""Mailboxes over the API."""

import pytest

from shared.db.engine.connection import rows
from shared.db.queue import mailbox
from tests.api_client import ask, get, made, post
from tests.support import dump, make_agent, plan, put

NAMES = ("sender", "recipient", "msgType", "urgency", "body", "status")
SENT = "msg_type = 'message'"


@pytest.fixture(autouse=True)
def crew(conn):
    for name in ("alice", "bob"):
        make_agent(conn, name)


def send(serving, recipient, body="hello", **more):
    return made(post(serving, {"recipient": recipient, "body": body, **more}, "/api/mail"))


def mail(serving, agent):
    return [[letter[name] for name in NAMES] for letter in made(get(serving, f"/api/agents/{agent}/mail"))]


def test_a_message_stays_in_the_mailbox_until_it_is_consumed_once(serving, conn):
    sent = send(serving, "bob", "first")
    send(serving, "bob", "second", sender="alice", msgType="task", urgency="urgent")
    put(conn, "of a person, which is no mail", agent="bob")
    waiting = mail(serving, "bob")
    assert waiting == [
        ["operator", "bob", "message", "normal", "first", "pending"],
        ["alice", "bob", "task", "urgent", "second", "pending"],
    ]
    assert mail(serving, "bob") == waiting, "reading takes nothing"
    taken = made(ask(serving, "POST", "/api/agents/bob/mail/consume"))
    assert [message["body"] for message in taken] == ["first", "second"]
    assert (taken[0]["id"], taken[0]["messageId"]) == (sent["id"], sent["messageId"])
    assert all(letter["deliveredAt"] >= letter["createdAt"] for letter in taken)
    assert mail(serving, "bob") == made(ask(serving, "POST", "/api/agents/bob/mail/consume")) == []


def test_an_urgent_message_is_listed_until_it_is_delivered(serving, conn):
    sent = send(serving, "bob", urgency="urgent")
    send(serving, "alice")
    urgent = made(get(serving, "/api/mail/urgent"))
    assert urgent == [{"id": sent["id"], "messageId": sent["messageId"], "recipient": "bob"}]
    made(ask(serving, "POST", "/api/agents/bob/mail/consume"))
    assert made(get(serving, "/api/mail/urgent")) == []


def test_a_reply_joins_the_thread_and_goes_to_the_writer(serving, conn):
    first = send(serving, "bob", "what is it?", sender="alice")
    replied = made(post(serving, {"body": "42"}, f"/api/messages/{first['messageId']}/reply"))
    assert replied["responseId"] is None
    thread = made(get(serving, f"/api/messages/{replied['messageId']}/thread"))
    assert thread == made(get(serving, f"/api/messages/{first['messageId']}/thread"))
    told = [(each["sender"], each["recipient"], each["body"], each["threadId"], each["replyTo"]) for each in thread]
    assert told == [
        ("alice", "bob", "what is it?", first["id"], None),
        ("bob", "alice", "42", first["id"], first["id"]),
    ]
    assert thread[0]["conversationId"] == thread[1]["conversationId"]


def test_the_operator_fetches_the_reply(serving, conn):
    asked = send(serving, "bob", "all well?")
    replied = made(post(serving, {"body": "yes"}, f"/api/messages/{asked['messageId']}/reply"))
    assert replied["messageId"] is None
    (fetched,) = made(get(serving, "/api/responses/pending?channel=internal"))
    assert (fetched["id"], fetched["message"], fetched["agent"]) == (replied["responseId"], "yes", "bob")


def test_a_reply_in_a_room_is_a_line_of_the_room(serving, conn):
    made(ask(serving, "PUT", "/api/teams/dev", {"agents": ["alice", "bob"]}))
    made(post(serving, {"message": "who knows?"}, "/api/chatroom/dev"))
    (letter,) = made(ask(serving, "POST", "/api/agents/bob/mail/consume"))
    replied = made(post(serving, {"body": "I do"}, f"/api/messages/{letter['messageId']}/reply"))
    assert replied == {"ok": True, "messageId": None, "responseId": None, "line": 2}
    newest = made(get(serving, "/api/chatroom/dev"))[0]
    assert (newest["id"], newest["from_agent"], newest["message"]) == (2, "bob", "I do")


def test_a_loop_of_agents_that_send_to_each_other_ends(serving, conn):
    """The cause counts as in a turn; without it, each message would begin a new chain."""
    sent = send(serving, "bob", "0", sender="alice")
    for number in range(1, 10):
        pair = ("bob", "alice") if number % 2 else ("alice", "bob")
        sent = send(serving, pair[1], str(number), sender=pair[0], because=sent["messageId"])
    body = {"recipient": "bob", "body": "10", "sender": "alice", "because": sent["messageId"]}
    reply = post(serving, body, "/api/mail")
    assert (reply.status_code, "9 times" in reply.json()["error"]) == (409, True)
    known = rows(conn, f"SELECT content ->> '$.hops', conversation_id FROM messages WHERE {SENT} ORDER BY id")
    assert known == [(number, known[0][1]) for number in range(10)]
    assert rows(conn, f"SELECT agent FROM messages WHERE NOT ({SENT})") == [("bob",)], "the other side is told"


def test_a_cause_must_be_a_message_to_the_sender(serving, conn):
    """Otherwise the answer would go to the asker of another agent."""
    asked = put(conn, "of a person", agent="alice")
    (message_id,) = rows(conn, "SELECT message_id FROM messages WHERE id = ?", (asked,))[0]
    for sender in ("bob", "operator"):
        body = {"recipient": "assistant", "body": "x", "sender": sender, "because": message_id}
        reply = post(serving, body, "/api/mail")
        assert (reply.status_code, reply.json()["error"]) == (409, f"message {message_id!r} was not for {sender!r}")


WRONG = {
    "to nobody": ("/api/mail", {"recipient": "zoe", "body": "x"}, 404, "no agent 'zoe'; known: "),
    "from nobody": ("/api/mail", {"recipient": "bob", "body": "x", "sender": "zoe"}, 404, "no agent 'zoe'"),
    "to itself": ("/api/mail", {"recipient": "bob", "body": "x", "sender": "bob"}, 409, "writes to itself"),
    "an unknown cause": ("/api/mail", {"recipient": "bob", "body": "x", "because": "nope"}, 404, "no message 'nope'"),
    "nothing": ("/api/mail", {"recipient": "bob", "body": ""}, 400, "body: "),
    "an unknown kind": ("/api/mail", {"recipient": "bob", "body": "x", "msgType": "poke"}, 400, "msgType: "),
    "an unknown field": ("/api/mail", {"recipient": "bob", "body": "x", "type": "task"}, 400, "type: "),
    "a reply to no message": ("/api/messages/nope/reply", {"body": "x"}, 404, "no message 'nope'"),
    "an unknown mailbox": ("/api/agents/zoe/mail/consume", None, 404, "zoe"),
}


@pytest.mark.parametrize(("path", "body", "status", "sentence"), WRONG.values(), ids=WRONG)
def test_an_invalid_message_between_agents_is_refused_and_not_stored(serving, conn, path, body, status, sentence):
    before = dump(conn)
    reply = ask(serving, "POST", path, body)
    assert (reply.status_code, sentence in reply.json()["error"]) == (status, True), reply.text
    assert dump(conn) == before


def test_the_sender_of_too_many_messages_gets_a_refusal(serving, conn):
    sent = send(serving, "bob", sender="alice")
    rows(conn, "UPDATE messages SET content = json_set(content, '$.hops', 12)")
    reply = post(serving, {"body": "again"}, f"/api/messages/{sent['messageId']}/reply")
    assert reply.status_code == 409
    stored = "SELECT agent, msg_type, reply_to FROM messages WHERE id > ?"
    assert rows(conn, stored, (sent["id"],)) == [("alice", "status", None)], "the other side is told"


def test_a_mailbox_is_read_by_the_index_of_open_messages(conn):
    lines = plan(conn, mailbox.PENDING, agent="bob", now=1, limit=9)
    assert any(line.startswith("SEARCH messages USING INDEX messages_open") for line in lines), lines


def test_a_star_of_agents_ends_and_everybody_is_told_once(serving, conn, monkeypatch):
    """A hub writes to three agents, each of which writes back: few hops, and more messages with each of them."""
    monkeypatch.setenv("POSTROOM_CHAIN_LIMIT", "20")
    for name in ("hub", "carol"):
        make_agent(conn, name)
    put(conn, "begin", agent="hub")
    (asked,) = rows(conn, "SELECT message_id FROM messages")[0]
    spokes = ("alice", "bob", "carol")
    waiting, sent, refused = [("hub", asked)], 0, []
    while waiting:
        agent, because = waiting.pop(0)
        for other in spokes if agent == "hub" else ("hub",):
            body = {"sender": agent, "recipient": other, "body": "go on", "because": because}
            reply = post(serving, body, "/api/mail")
            if reply.status_code == 200:
                sent += 1
                waiting.append((other, reply.json()["messageId"]))
            else:
                refused.append((reply.status_code, agent, reply.json()["error"]))
    assert sent == 20
    assert {each[::2] for each in refused} == {
        (409, "agents have sent 20 messages because of one message; this message was not sent")
    }
    told = rows(conn, "SELECT agent, count(*) FROM messages WHERE msg_type = 'status' GROUP BY agent ORDER BY agent")
    _, first, _ = refused[0]
    assert told == [(agent, 1) for agent in sorted({"hub", *spokes} - {first})]
    limit = "agents have sent 20 messages because of one message"
    sentence = f"Not all that the agents wrote to each other because of this was sent: {limit}."
    assert rows(conn, "SELECT channel, sender, message FROM responses") == [("telegram", "Ana", sentence)]
    assert rows(conn, "SELECT message_id FROM events WHERE type = 'chain_ended'") == [(asked,)]


def test_agents_that_name_no_cause_are_slowed_down(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_PAIR_LIMIT", "3")
    make_agent(conn, "carol")
    for number in range(3):
        sender, recipient = ("alice", "bob") if number % 2 else ("bob", "alice")
        send(serving, recipient, "go on", sender=sender)
    refused = [post(serving, {"sender": "alice", "recipient": "bob", "body": "go on"}, "/api/mail") for _ in range(2)]
    assert [(reply.status_code, reply.json()["error"]) for reply in refused] == [
        (409, "alice and bob have exchanged 3 messages within a minute; this message was not sent")
    ] * 2
    send(serving, "carol", "go on", sender="alice")
    send(serving, "bob", "go on")
    told = rows(conn, "SELECT agent, from_agent FROM messages WHERE msg_type = 'status'")
    assert told == [("bob", "alice")]
