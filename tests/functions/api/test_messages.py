"""Messages over REST."""

import asyncio
import time

import pytest

from functions import api
from functions.dispatch import Dispatch
from shared.core.errors import ClaimLost
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.api_client import call, get, post
from tests.support import NOW, answer, column, dump, make_agent, put, row, take


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
    "a message too long": ({"message": "x" * 200_001}, 400, "message: should have at most 200000 characters"),
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
