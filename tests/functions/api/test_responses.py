"""Responses over REST, and the replica."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.queue import turns
from shared.queue.turns import TurnReply
from tests.api_client import call, get, post
from tests.support import NOW, answer, column, make_chat, take, wire


def test_a_program_does_not_fetch_what_our_adapter_sends(serving, conn):
    """No person is answered twice: only the adapter answers a chat that came by webhook."""
    wire(conn, make_chat(conn, "7"))
    for sender in ("7", "8"):
        post(serving, {"message": f"from {sender}", "channel": "telegram", "sender": "Bo", "senderId": sender})
    for chat in ("7", "8"):
        claim = take(conn, chat=chat)
        with transaction(conn):
            turns.settle(conn, claim, [TurnReply(f"to {chat}", claim.asked[0])], None, now_ms=NOW)
    fetched = get(serving, "/api/responses/pending?channel=telegram").json()
    assert [each["message"] for each in fetched] == ["to 8"]
    heads = responses.heads(conn, "telegram", now_ms=NOW)
    sent = "SELECT message FROM responses WHERE id IN (SELECT value FROM json_each(:ids))"
    assert column(conn, sent, ids=str(heads)) == ["to 7"]


def test_a_proactive_response_takes_the_same_way(serving, conn):
    wire(conn, make_chat(conn, "7"))
    make_chat(conn, "8")  # from a program's messages, not from a webhook
    for sender in ("7", "8"):
        body = {"message": f"to {sender}", "channel": "telegram", "sender": "Bo", "senderId": sender}
        assert post(serving, body, "/api/responses").json()["messageId"].startswith("proactive_")
    assert [each["message"] for each in get(serving, "/api/responses/pending?channel=telegram").json()] == ["to 8"]
    found = rows(conn, "SELECT message, chat_id IS NOT NULL, platform_id FROM responses ORDER BY id")
    assert found == [("to 7", 1, "7"), ("to 8", 0, "8")]


def test_a_fetched_response_stays_until_it_is_acked_once(serving, conn):
    post(serving, {"message": "hi", "channel": "cli", "sender": "Bo"}, "/api/responses")
    path = "/api/responses/pending?channel=cli"
    ((first,), (second,)) = (get(serving, path).json() for _ in range(2))
    assert first == second
    acks = [f"/api/responses/{id_}/ack" for id_ in (first["id"], first["id"], 5000)]
    assert [reply.status_code for reply in call(serving, *(("POST", ack, {}) for ack in acks))] == [200, 200, 404]
    assert get(serving, path).json() == []
    assert column(conn, "SELECT count(*) FROM events WHERE type = 'response_acked'") == [1]


def test_a_response_that_deliver_sends_cannot_be_acked_over_rest(serving, conn):
    answer(conn)
    reply = post(serving, None, "/api/responses/1/ack")
    assert (reply.status_code, column(conn, "SELECT status FROM responses")) == (409, ["pending"])
    assert "goes out through the adapter of telegram" in reply.json()["error"]


def test_a_dead_response_cannot_be_acked(serving, conn):
    answer(conn, channel="cli")
    rows(conn, "UPDATE responses SET status = 'dead'")
    reply = post(serving, None, "/api/responses/1/ack")
    assert (reply.status_code, reply.json()) == (409, {"error": "response 1 is dead: it can't be acknowledged"})


def test_all_of_a_channel_without_an_adapter_is_fetched_in_order(serving, conn):
    """A team's room has a chat, to which no adapter sends."""
    for number in range(4):
        answer(conn, f"r{number}", channel="chatroom")
    rows(conn, "UPDATE responses SET chat_id = NULL WHERE id IN (2, 4)")
    found = get(serving, "/api/responses/pending?channel=chatroom&limit=3").json()
    assert [each["message"] for each in found] == ["r0", "r1", "r2"]
    assert post(serving, None, f"/api/responses/{found[0]['id']}/ack").status_code == 200


def test_a_response_that_is_due_later_is_not_fetched_yet(serving, conn):
    post(serving, {"message": "hi", "channel": "cli", "sender": "Bo"}, "/api/responses")
    with transaction(conn):
        conn.execute("UPDATE responses SET deliver_after = 4000000000000")
    assert get(serving, "/api/responses/pending?channel=cli").json() == []


RESPONSES = {
    "no channel": ({"sender": "a", "message": "b"}, 400, "channel, sender, and message are required"),
    "no sender": ({"channel": "a", "message": "b"}, 400, "channel, sender, and message are required"),
    "no message": ({"channel": "a", "sender": "b", "message": ""}, 400, "channel, sender, and message are required"),
    "files": ({"channel": "a", "sender": "b", "message": "c", "files": ["/etc/passwd"]}, 400, "files: name ids"),
    "an unknown agent": ({"channel": "a", "sender": "b", "message": "c", "agent": "nobody"}, 404, "no agent 'nobody'"),
    "no cron": ({"channel": "a", "sender": "b", "message": "c", "recurrence": "daily"}, 400, "five fields"),
    "no zone": ({"channel": "a", "sender": "b", "message": "c", "deliverAfter": 1, "timezone": "Mars"}, 400, "'Mars'"),
}


@pytest.mark.parametrize(("body", "status", "sentence"), RESPONSES.values(), ids=RESPONSES)
def test_an_invalid_response_is_refused(serving, conn, body, status, sentence):
    reply = post(serving, body, "/api/responses")
    assert (reply.status_code, sentence in reply.json()["error"]) == (status, True)
    assert column(conn, "SELECT id FROM responses") == []


def test_the_newest_responses_first_and_no_more_than_asked_for(serving, conn):
    for number in range(3):
        answer(conn, f"r{number}")
    assert [each["message"] for each in get(serving, "/api/responses?limit=2").json()] == ["r2", "r1"]
    assert len(get(serving, "/api/responses").json()) == 3
    assert [get(serving, f"/api/responses?limit={limit}").status_code for limit in ("0", "1001", "x")] == [400] * 3


def test_an_unreplicated_change_is_neither_acknowledged_nor_lost(serving, conn, monkeypatch, tmp_path):
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated")
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(tmp_path / "nobody.sock"))
    body = {"message": "hi", "messageId": "x_1"}
    replies = call(serving, ("POST", "/api/message", {"json": body}), ("POST", "/api/message", {"json": body}))
    assert [(reply.status_code, reply.headers["retry-after"]) for reply in replies] == [(503, "5")] * 2
    assert column(conn, "SELECT message_id FROM messages") == ["x_1"]


def test_an_agents_other_models_are_set_and_taken_away(serving, conn):
    set_, kept, none, refused = call(
        serving,
        ("PUT", "/api/agents/a", {"json": {"models": ["sonnet", "haiku"]}}),
        ("PUT", "/api/agents/a", {"json": {"name": "Ada"}}),
        ("PUT", "/api/agents/a", {"json": {"models": []}}),
        ("PUT", "/api/agents/a", {"json": {"models": [""]}}),
    )
    models = [each.json()["agent"]["models"] for each in (set_, kept, none)]
    assert models == [["sonnet", "haiku"], ["sonnet", "haiku"], []]
    assert refused.status_code == 400
