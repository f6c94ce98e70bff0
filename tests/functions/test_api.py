import asyncio
import time

import pytest

from functions import api
from functions.dispatch import Dispatch
from shared.core.errors import ClaimLost
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.api_client import ask, call, get, post
from tests.support import NOW, answer, column, dump, make_agent, make_chat, put, row, take, wire

# -- POST /api/message


def test_a_message_is_stored_and_its_id_returned(serving, conn):
    reply = post(serving, {"message": "hello", "sender": "Bo", "senderId": "7"})
    body = reply.json()
    assert (reply.status_code, body["ok"], body["messageId"][:4]) == (200, True, "api_")
    found = row(conn, "messages")
    names = ("message_id", "channel", "sender", "sender_id", "message", "agent", "platform_id", "kind", "status")
    assert [found[name] for name in names] == [
        *(body["messageId"], "api", "Bo", "7", "hello", "assistant", "7", "chat", "pending")
    ]


def test_tinyagis_body_works_with_its_extra_fields(serving, conn):
    body = {"message": "hi", "agent": "assistant", "sender": "Web", "channel": "web", "messageId": "web_1", "files": []}
    assert post(serving, body).json() == {"ok": True, "messageId": "web_1"}


def test_a_message_id_is_accepted_once(serving, conn):
    post(serving, {"message": "a", "messageId": "x_1"})
    reply = post(serving, {"message": "b", "messageId": "x_1"})
    assert (reply.status_code, reply.json()) == (409, {"error": "duplicate messageId", "messageId": "x_1"})
    assert column(conn, "SELECT message FROM messages") == ["a"]


WRONG = {
    "no message": ({"sender": "x"}, 400, "message is required"),
    "an empty message": ({"message": ""}, 400, "message is required"),
    "a number for words": ({"message": 7}, 400, "message is required"),
    "a message too long": ({"message": "x" * 200_001}, 400, "message: String should have at most 200000 characters"),
    "no object": ([1], 400, "body: "),
    "an unknown agent": ({"message": "x", "agent": "nobody"}, 404, "no agent 'nobody'; known: assistant"),
    "a channel that is a path": ({"message": "x", "channel": "../etc"}, 400, "channel: "),
    "a wrong schedule": ({"message": "x", "recurrence": "* *"}, 400, "cron expression '* *'"),
    "a wrong zone": ({"message": "x", "recurrence": "* * * * *", "timezone": "Mars"}, 400, "time zone 'Mars'"),
    "a wrong misfire": ({"message": "x", "misfire": "both"}, 400, "misfire: "),
    "an instant before time": ({"message": "x", "processAfter": -1}, 400, "processAfter: "),
    "an instant beyond the column": ({"message": "x", "processAfter": 10**30}, 400, "processAfter: "),
    "an instant in no year": (
        {"message": "x", "processAfter": 10**18, "recurrence": "0 9 * * *"},
        400,
        "processAfter: ",
    ),
}


@pytest.mark.parametrize(("body", "status", "sentence"), WRONG.values(), ids=WRONG)
def test_an_invalid_message_is_refused_with_a_sentence_and_stores_nothing(serving, conn, body, status, sentence):
    before = dump(conn)
    reply = post(serving, body)
    assert reply.status_code == status
    assert sentence in reply.json()["error"]
    assert dump(conn) == before


BODIES = {
    "no JSON": (b"{", 400),
    "no UTF-8": (b'{"message": "\xff"}', 400),
}


@pytest.mark.parametrize(("content", "status"), [*BODIES.values(), (b"x" * 1_100_000, 413)], ids=[*BODIES, "too large"])
def test_an_unreadable_body_is_refused(serving, conn, content, status):
    (reply,) = call(serving, ("POST", "/api/message", {"content": content}))
    assert reply.status_code == status
    assert reply.json()["error"]
    assert column(conn, "SELECT id FROM messages") == []


def test_half_a_character_in_a_body_costs_itself_and_nothing_else(serving, conn):
    """A whole character stays, also as two escapes."""
    content = rb'{"message": "cut \ud83d, whole \ud83d\ude00", "sender": "Ana \ude00"}'
    (reply,) = call(serving, ("POST", "/api/message", {"content": content}))
    assert reply.status_code == 200
    found = row(conn, "messages")
    assert (found["message"], found["sender"]) == ("cut \ufffd, whole \U0001f600", "Ana \ufffd")


def test_a_recurring_message_waits_for_its_first_instant(serving, conn):
    before_ms = int(time.time() * 1000)
    post(serving, {"message": "daily", "recurrence": "0 9 * * *", "timezone": "Europe/Zurich", "misfire": "catch_up"})
    found = row(conn, "messages")
    assert (found["kind"], found["misfire"], found["timezone"]) == ("task", "catch_up", "Europe/Zurich")
    assert before_ms < found["process_after"] == found["scheduled_at"] <= before_ms + 90_000_000
    assert found["series_id"].startswith("series_")


def test_a_message_keeps_the_instant_that_it_names(serving, conn):
    post(serving, {"message": "later", "processAfter": 4_000_000_000_000})
    found = row(conn, "messages")
    assert (found["process_after"], found["recurrence"], found["scheduled_at"]) == (4_000_000_000_000, None, None)


# -- reading


def test_a_message_is_returned_with_its_answers_and_events(serving, conn):
    row_id = put(conn, "question", given_id="api_1")
    first = take(conn)
    with transaction(conn):
        turns.fail(conn, first, Failure("no"), RetryPolicy(5, 1, 1, 0.0), now_ms=NOW + 1)
    claim = take(conn, now_ms=NOW + 5000)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("said", claim.asked[0])], None, now_ms=NOW + 6000)
    body = get(serving, "/api/messages/api_1").json()
    assert (body["id"], body["message"], body["status"], body["retryCount"]) == (row_id, "question", "completed", 1)
    assert [each["message"] for each in body["responses"]] == ["said"]
    assert [(each["type"], each["timestamp"] - NOW) for each in body["events"]] == [
        ("message_received", 0),
        ("message_retry", 1),
        ("chain_step_done", 6000),
        ("response_ready", 6000),
    ]
    assert body["events"][1]["data"]["reason"] == "no"
    assert get(serving, "/api/messages/api_2").status_code == 404


def test_a_message_is_found_by_the_callers_id_and_by_its_own(serving, conn):
    named = post(serving, {"message": "a"}).json()["messageId"]
    assert get(serving, f"/api/messages/{named}").json()["messageId"] == named
    assert [get(serving, f"/api/messages/{name}").status_code for name in (f"x{named}", "api_0", "1", "%00")] == [
        *(404, 404, 404, 400)
    ]


def test_waiting_ends_when_the_answer_is_there(serving, until, conn):
    async def go():
        dispatch = Dispatch(Settings.load())
        async with serving(api) as client:
            name = (await client.post("/api/message", json={"message": "hello"})).json()["messageId"]
            asking = asyncio.create_task(client.get(f"/api/messages/{name}?wait=30"))
            await asyncio.sleep(0.01)
            assert not asking.done()
            await dispatch.claim_and_start()
            reply = await asyncio.wait_for(asking, 60)
        await dispatch.close()
        return reply.json()

    body = asyncio.run(go())
    assert (body["status"], [each["message"] for each in body["responses"]]) == ("completed", ["You said: hello"])


@pytest.mark.parametrize("wait", ["-1", "61", "x", "nan", "inf"])
def test_a_wait_is_a_number_of_seconds_within_its_limit(serving, conn, wait):
    put(conn, given_id="api_1")
    assert get(serving, f"/api/messages/api_1?wait={wait}").status_code == 400


def test_a_wait_that_times_out_returns_the_message_as_it_is(serving, conn):
    put(conn, given_id="api_1")
    assert get(serving, "/api/messages/api_1?wait=0.01").json()["status"] == "pending"


def test_the_queue_state_has_tinyagis_names(serving, conn):
    put(conn)
    answer(conn)
    assert get(serving, "/api/queue/status").json() == {
        "incoming": 1,
        "queued": 0,
        "processing": 0,
        "completed": 0,
        "dead": 0,
        "outgoing": 1,
        "activeConversations": 0,
    }


# -- what is done by hand


def test_a_message_is_cancelled_once(serving, conn):
    put(conn, given_id="api_1")
    paths = ["/api/messages/api_1/cancel", "/api/messages/api_1/cancel", "/api/messages/api_2/cancel"]
    replies = call(serving, *(("POST", path, {}) for path in paths))
    assert [reply.status_code for reply in replies] == [200, 409, 404]
    assert "cancelled" in replies[1].json()["error"]
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]


def test_a_running_message_is_cancelled(serving, conn):
    row_id = put(conn)
    claim = take(conn)
    replies = call(serving, *[("POST", f"/api/queue/processing/{row_id}/kill", {})] * 2)
    assert [reply.status_code for reply in replies] == [200, 404]
    assert replies[0].json() == {"ok": True, "agent": "assistant", "processKilled": True}
    assert replies[1].json() == {"error": "processing message not found"}
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]
    with pytest.raises(ClaimLost), transaction(conn):
        turns.settle(conn, claim, [TurnReply("late", claim.asked[0])], None, now_ms=NOW)


def _die(conn, **fields):
    row_id = put(conn, **fields)
    claim = take(conn)
    with transaction(conn):
        turns.fail(conn, claim, Failure("bad", retryable=False), RetryPolicy(5, 1, 1, 0.0), now_ms=NOW)
    return row_id


def test_dead_messages_are_retried_or_deleted(serving, conn):
    first, second = _die(conn), _die(conn)
    put(conn, chat="other")
    paths = [("POST", f"/api/queue/dead/{first}/retry"), ("POST", f"/api/queue/dead/{first}/retry")]
    paths += [("DELETE", f"/api/queue/dead/{second}"), ("DELETE", f"/api/queue/dead/{second}")]
    replies = call(serving, *((method, path, {}) for method, path in paths))
    assert [reply.status_code for reply in replies] == [200, 404, 200, 404]
    assert replies[1].json() == {"error": "dead message not found"}
    found = rows(conn, "SELECT id, status, retry_count FROM messages WHERE id <= :second", {"second": second})
    assert found == [(first, "pending", 0)]


def test_all_dead_messages_are_retried_in_batches_oldest_first(serving, conn):
    """A message that fails again between two batches is not retried twice, and the loop ends."""
    first, second, _ = (_die(conn, given_id=f"m_{number}") for number in range(3))
    (reply,) = call(serving, ("POST", "/api/queue/dead/retry?limit=2", {}))
    assert reply.json() == {"ok": True, "retried": ["m_0", "m_1"], "next": second}
    rows(conn, "UPDATE messages SET status = 'dead' WHERE id = :id", {"id": first})
    path = f"/api/queue/dead/retry?limit=2&after={second}"
    assert [reply.json() for reply in call(serving, *[("POST", path, {})] * 2)] == [
        {"ok": True, "retried": ["m_2"], "next": None},
        {"ok": True, "retried": [], "next": None},
    ]
    assert column(conn, "SELECT status FROM messages ORDER BY id") == ["dead", "pending", "pending"]


def test_all_dead_responses_are_retried_in_batches(serving, conn):
    first, second = (answer(conn, f"text {number}") for number in range(2))
    rows(conn, "UPDATE responses SET status = 'dead', last_error = 'gone'")
    paths = ["/api/responses/dead/retry?limit=1", f"/api/responses/dead/retry?limit=10&after={first}"]
    assert [reply.json() for reply in call(serving, *(("POST", path, {}) for path in paths))] == [
        {"ok": True, "retried": [first], "next": first},
        {"ok": True, "retried": [second], "next": None},
    ]
    assert column(conn, "SELECT status FROM responses") == ["pending", "pending"]


@pytest.mark.parametrize("name", ["0", "-1", "x", "1e3", "9" * 30, "²"])
def test_an_id_that_is_not_a_number_is_a_404(serving, conn, name):
    paths = [("POST", f"/api/queue/dead/{name}/retry"), ("POST", f"/api/responses/{name}/ack")]
    assert [reply.status_code for reply in call(serving, *((*path, {}) for path in paths))] == [404, 404]


# -- responses


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


# -- whom a text is for


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("@coder fix it", "coder"),
        ("@CODER\nfix it", "coder"),
        ("@Ana hello", "writer"),
        ("@coder, fix it", "assistant"),
        ("@coder", "assistant"),
        (" @coder fix it", "assistant"),
        ("hello @coder", "assistant"),
        ("@constructor x", "assistant"),
    ],
)
def test_a_text_that_names_its_agent_is_stored_unchanged(serving, conn, text, agent):
    make_agent(conn, "coder")
    make_agent(conn, "writer")
    rows(conn, "UPDATE agents SET name = 'Ana' WHERE id = 'writer'")
    post(serving, {"message": text})
    assert rows(conn, "SELECT agent, message FROM messages") == [(agent, text)]


def test_the_agent_field_wins_over_the_agent_in_the_text(serving, conn):
    make_agent(conn, "coder")
    post(serving, {"message": "@coder hi", "agent": "assistant"})
    assert column(conn, "SELECT agent FROM messages") == ["assistant"]


@pytest.mark.parametrize("name", ["agent", "sender", "senderId", "channel", "messageId"])
def test_an_empty_field_counts_as_missing(serving, conn, name):
    assert post(serving, {"message": "hi", name: ""}).status_code == 200
    assert rows(conn, "SELECT agent, sender, sender_id, channel FROM messages") == [("assistant", "API", None, "api")]


# -- agents


def test_an_agent_is_created_and_changed_under_its_id(serving, conn, tmp_path):
    replies = call(
        serving,
        (
            "PUT",
            "/api/agents/coder",
            {"json": {"provider": "command", "config": {"command": ["true"]}, "concurrency": 3}},
        ),
        ("PUT", "/api/agents/coder", {"json": {"name": "The Coder"}}),
        ("GET", "/api/agents", {}),
    )
    assert [reply.status_code for reply in replies] == [200] * 3
    assert replies[2].json()["coder"] == {
        "name": "The Coder",
        "provider": "command",
        "model": "",
        "working_directory": f"{tmp_path}/agents/coder",
        "system_prompt": "",
        "instructions": "",
        "config": {"command": ["true"]},
        "concurrency": 3,
        "timezone": "UTC",
        "folder": None,
        "turn_timeout_ms": None,
        "idle_timeout_ms": None,
        "tool_timeout_ms": None,
        "output_limit_bytes": None,
        "memory_limit_mb": None,
        "batch_size": None,
        "resume_spoken": False,
        "drafts": False,
        "models": [],
        "chosen_provider": None,
        "default": False,
    }
    assert replies[2].json()["assistant"]["default"]


AGENTS = {
    "an unknown provider": ("a", {"provider": "claudius"}, "unknown provider 'claudius'; known: "),
    "an unknown zone": ("a", {"timezone": "Mars"}, "time zone 'Mars'"),
    "an unknown setting": ("a", {"colour": "red"}, "colour: Extra inputs are not permitted"),
    "no name": ("a", {"name": ""}, "name: "),
    "null for what is required": ("a", {"config": None}, "config: "),
    "a concurrency of nothing": ("a", {"concurrency": 0}, "concurrency: "),
    "a program that is not named": ("a", {"provider": "command"}, "command: Field required"),
    "a program that is no list": ("a", {"provider": "command", "config": {"command": "python3 x"}}, "valid list"),
    "a folder elsewhere": ("a", {"folder": "/etc"}, "is not below the agents' folder"),
    "somebody's folder": ("a", {"folder": "assistant"}, "of agent 'assistant' overlap"),
    "two folders": ("a", {"folder": "a", "working_directory": "b"}, "working_directory and folder are the same field"),
    "an id in capitals": ("A", {}, "an agent's id is"),
    "an id with a dot": ("a.b", {}, "an agent's id is"),
}


@pytest.mark.parametrize(("name", "body", "sentence"), AGENTS.values(), ids=AGENTS)
def test_an_invalid_agent_is_refused(serving, conn, name, body, sentence):
    before = dump(conn)
    (reply,) = call(serving, ("PUT", f"/api/agents/{name}", {"json": body}))
    assert (reply.status_code, sentence in reply.json()["error"]) == (400, True)
    assert dump(conn) == before


@pytest.mark.parametrize("number", [b"1e400", b"NaN"])
def test_a_number_that_json_does_not_have_is_refused(serving, conn, number):
    (reply,) = call(serving, ("PUT", "/api/agents/a", {"content": b'{"config": {"a": [%s]}}' % number}))
    assert reply.status_code == 400
    assert column(conn, "SELECT id FROM agents") == ["assistant"]


def test_a_change_leaves_the_other_fields(serving, conn):
    make_agent(conn, "a", instructions="be kind", concurrency=4, timezone="Europe/Zurich")
    call(serving, ("PUT", "/api/agents/a", {"json": {"model": "m"}}))
    found = rows(conn, "SELECT model, instructions, concurrency, timezone FROM agents WHERE id = 'a'")
    assert found == [("m", "be kind", 4, "Europe/Zurich")]


def test_an_agents_own_limits_are_set_and_removed(serving, conn):
    set_, back = call(
        serving,
        ("PUT", "/api/agents/a", {"json": {"turn_timeout_ms": 5000, "batch_size": 2, "folder": "x/y"}}),
        ("PUT", "/api/agents/a", {"json": {"turn_timeout_ms": None, "batch_size": None, "folder": None}}),
    )
    names = ("turn_timeout_ms", "batch_size", "folder")
    assert [set_.json()["agent"][name] for name in names] == [5000, 2, "x/y"]
    assert [back.json()["agent"][name] for name in names] == [None] * 3


def test_another_agent_becomes_the_default(serving, conn):
    call(serving, ("PUT", "/api/agents/a", {"json": {"default": True}}))
    post(serving, {"message": "hi"})
    assert column(conn, "SELECT agent FROM messages") == ["a"]
    reply = ask(serving, "PUT", "/api/agents/a", {"default": False})
    assert (reply.status_code, "make another agent the default" in reply.json()["error"]) == (409, True)


def test_an_agent_with_history_is_retired_and_can_come_back(serving, conn):
    make_agent(conn, "a", instructions="be kind")
    waiting = post(serving, {"message": "hi", "agent": "a"}).json()["messageId"]
    refused = ask(serving, "DELETE", "/api/agents/a")
    assert (refused.status_code, "1 message waits for agent 'a'" in refused.json()["error"]) == (409, True)
    replies = call(
        serving,
        ("POST", f"/api/messages/{waiting}/cancel", {}),
        ("DELETE", "/api/agents/a", {}),
        ("GET", "/api/agents/a", {}),
        ("POST", "/api/message", {"json": {"message": "hi", "agent": "a"}}),
        ("POST", "/api/message", {"json": {"message": "@a hi"}}),
        ("PUT", "/api/agents/a", {"json": {}}),
        ("POST", "/api/message", {"json": {"message": "hi", "agent": "a"}}),
    )
    assert [reply.status_code for reply in replies] == [200, 200, 404, 404, 200, 200, 200]
    assert replies[1].json() == {"ok": True, "retired": True}
    assert replies[2].json() == {"error": "agent 'a' not found; known: assistant"}
    back = replies[5].json()
    assert (back["provisioned"], back["agent"]["instructions"]) == (False, "be kind")
    assert column(conn, "SELECT agent FROM messages ORDER BY id") == ["a", "assistant", "a"]


def test_the_root_lists_the_endpoints(serving):
    assert "POST /api/message" in get(serving, "/").json()["postroom"]


# -- the replica


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
