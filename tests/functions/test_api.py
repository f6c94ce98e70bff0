import asyncio
import contextlib
import json
import time

import pytest

from functions import api
from functions.dispatch import Dispatch
from shared.db import events
from shared.db.connection import rows, transaction
from shared.kick import Kicker
from shared.settings import Settings
from tests.functions.conftest import app_of
from tests.support import answer, column, dump, make_agent, put, row


def call(serving, *calls, host="127.0.0.1:3777"):
    """The answers to *calls* (method, path, JSON body, headers), one after the other."""

    async def go():
        async with serving(api, host) as client:
            return [await client.request(method, path, **fields) for method, path, fields in calls]

    return asyncio.run(go())


def post(serving, body, **fields):
    (reply,) = call(serving, ("POST", "/api/message", {"json": body, **fields}))
    return reply


def get(serving, path, **fields):
    (reply,) = call(serving, ("GET", path, fields))
    return reply


# -- POST /api/message


def test_a_message_is_stored_and_named(serving, conn):
    reply = post(serving, {"message": "hello", "sender": "Bo", "senderId": "7"})
    body = reply.json()
    assert (reply.status_code, body["ok"], body["messageId"][:4]) == (200, True, "api_")
    found = row(conn, "messages")
    names = ("message_id", "channel", "sender", "sender_id", "message", "agent", "platform_id", "kind", "status")
    assert [found[name] for name in names] == [
        *(body["messageId"], "api", "Bo", "7", "hello", "assistant", "7", "chat", "pending")
    ]


def test_tinyagis_body_works_with_what_it_has_besides(serving, conn):
    body = {"message": "hi", "agent": "assistant", "sender": "Web", "channel": "web", "messageId": "web_1", "files": []}
    assert post(serving, body).json() == {"ok": True, "messageId": "web_1"}


def test_a_message_id_is_taken_once(serving, conn):
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
def test_what_can_not_be_is_refused_with_a_sentence_and_stores_nothing(serving, conn, body, status, sentence):
    before = dump(conn)
    reply = post(serving, body)
    assert reply.status_code == status
    assert sentence in reply.json()["error"]
    assert dump(conn) == before


BODIES = {
    "no JSON": (b"{", 400),
    "no UTF-8": (b'{"message": "\xff"}', 400),
    "a lone surrogate": (b'{"message": "\\ud800"}', 400),
}


@pytest.mark.parametrize(("content", "status"), [*BODIES.values(), (b"x" * 1_100_000, 413)], ids=[*BODIES, "too large"])
def test_a_body_that_can_not_be_read_is_refused(serving, conn, content, status):
    (reply,) = call(serving, ("POST", "/api/message", {"content": content}))
    assert reply.status_code == status
    assert reply.json()["error"]
    assert column(conn, "SELECT id FROM messages") == []


def test_a_recurring_message_waits_for_its_first_instant(serving, conn):
    before_ms = int(time.time() * 1000)
    post(serving, {"message": "daily", "recurrence": "0 9 * * *", "timezone": "Europe/Zurich", "misfire": "catch_up"})
    found = row(conn, "messages")
    assert (found["kind"], found["misfire"], found["timezone"]) == ("task", "catch_up", "Europe/Zurich")
    assert before_ms < found["process_after"] == found["scheduled_at"] <= before_ms + 90_000_000
    assert found["series_id"].startswith("series_")


def test_an_instant_of_its_own_is_kept(serving, conn):
    post(serving, {"message": "later", "processAfter": 4_000_000_000_000})
    found = row(conn, "messages")
    assert (found["process_after"], found["recurrence"], found["scheduled_at"]) == (4_000_000_000_000, None, None)


# -- who may


GUARDED = {
    "a name of the machine": ("GET", "127.0.0.1:3777", {}, None, 200),
    "localhost": ("GET", "localhost:3777", {}, None, 200),
    "IPv6": ("GET", "[::1]:3777", {}, None, 200),
    "a name that was made to point here": ("GET", "evil.example:3777", {}, None, 403),
    "a name that begins like ours": ("GET", "127.0.0.1.evil.example", {}, None, 403),
    "a host that is no host": ("GET", "[::1", {}, None, 403),
    "a page from elsewhere that writes": ("POST", "127.0.0.1:3777", {"origin": "https://evil.example"}, None, 403),
    "a page without an origin": ("POST", "127.0.0.1:3777", {"origin": "null"}, None, 403),
    "our own page": ("POST", "127.0.0.1:3777", {"origin": "http://127.0.0.1:3777"}, None, 400),
    "no token where one is set": ("GET", "127.0.0.1:3777", {}, "s3cret", 401),
    "a wrong token": ("GET", "127.0.0.1:3777", {"authorization": "Bearer guess"}, "s3cret", 401),
    "the token": ("GET", "api.example", {"authorization": "Bearer s3cret"}, "s3cret", 200),
}


@pytest.mark.parametrize(("method", "host", "headers", "token", "status"), GUARDED.values(), ids=GUARDED)
def test_who_is_let_in(serving, monkeypatch, method, host, headers, token, status):
    if token:
        monkeypatch.setenv("POSTROOM_API_TOKEN", token)
    path = "/api/queue/status" if method == "GET" else "/api/message"
    (reply,) = call(serving, (method, path, {"headers": {"host": host, **headers}}))
    assert reply.status_code == status
    assert "access-control-allow-origin" not in reply.headers
    if status in (401, 403):
        assert reply.json()["error"]


def test_everything_under_api_is_guarded(serving, monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret")
    calls = [
        ("GET", "/api/queue/status"),
        ("GET", "/api/responses"),
        ("GET", "/api/agents"),
        ("GET", "/api/messages/x"),
    ]
    calls += [("POST", "/api/message"), ("PUT", "/api/agents/x"), ("GET", "/api/events/stream")]
    replies = call(serving, *((method, path, {}) for method, path in calls))
    assert [reply.status_code for reply in replies] == [401] * len(calls)


# -- reading


def test_a_message_with_its_answers(serving, conn):
    put(conn, "question", message_id="api_1")
    answer(conn, "said", message_id="api_1")
    body = get(serving, "/api/messages/api_1").json()
    assert (body["message"], body["status"], body["retryCount"]) == ("question", "pending", 0)
    assert [each["message"] for each in body["responses"]] == ["said"]
    assert get(serving, "/api/messages/api_2").status_code == 404


def test_waiting_ends_when_the_answer_is_there(serving, until, conn):
    async def go():
        dispatch = Dispatch(Settings.load())
        async with serving(api) as client:
            name = (await client.post("/api/message", json={"message": "hello"})).json()["messageId"]
            asking = asyncio.create_task(client.get(f"/api/messages/{name}?wait=30"))
            await asyncio.sleep(0.01)
            assert not asking.done()
            await dispatch.claim_and_start()
            reply = await asyncio.wait_for(asking, 10)
        await dispatch.close()
        return reply.json()

    body = asyncio.run(go())
    assert (body["status"], [each["message"] for each in body["responses"]]) == ("completed", ["You said: hello"])


@pytest.mark.parametrize("wait", ["-1", "61", "x", "nan", "inf"])
def test_a_wait_is_a_number_of_seconds_within_its_limit(serving, conn, wait):
    put(conn, message_id="api_1")
    assert get(serving, f"/api/messages/api_1?wait={wait}").status_code == 400


def test_waiting_in_vain_answers_with_what_there_is(serving, conn):
    put(conn, message_id="api_1")
    assert get(serving, "/api/messages/api_1?wait=0.01").json()["status"] == "pending"


def test_the_queues_state_in_tinyagis_words(serving, conn):
    put(conn)
    answer(conn)
    assert get(serving, "/api/queue/status").json() == {
        "incoming": 1,
        "queued": 0,
        "processing": 0,
        "completed": 0,
        "dead": 0,
        "outgoing": 1,
    }


def test_the_newest_responses_first_and_no_more_than_asked_for(serving, conn):
    for number in range(3):
        answer(conn, f"r{number}")
    assert [each["message"] for each in get(serving, "/api/responses?limit=2").json()] == ["r2", "r1"]
    assert len(get(serving, "/api/responses").json()) == 3
    assert [get(serving, f"/api/responses?limit={limit}").status_code for limit in ("0", "1001", "x")] == [400] * 3


# -- agents


def test_agents_are_made_and_changed_where_named(serving, conn):
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
        "model": None,
        "instructions": "",
        "config": {"command": ["true"]},
        "concurrency": 3,
        "timezone": "UTC",
        "default": False,
    }
    assert replies[2].json()["assistant"]["default"]


AGENTS = {
    "an unknown provider": ("a", {"provider": "claudius"}, "unknown provider 'claudius'; known: command, echo"),
    "an unknown zone": ("a", {"timezone": "Mars"}, "time zone 'Mars'"),
    "an unknown setting": ("a", {"folder": "/etc"}, "folder: Extra inputs are not permitted"),
    "no name": ("a", {"name": ""}, "name: "),
    "null for what is required": ("a", {"config": None}, "config: "),
    "a concurrency of nothing": ("a", {"concurrency": 0}, "concurrency: "),
    "a program that is not named": ("a", {"provider": "command"}, "command: Field required"),
    "a program that is no list": ("a", {"provider": "command", "config": {"command": "python3 x"}}, "valid list"),
    "an id in capitals": ("A", {}, "an agent's id is"),
    "an id with a dot": ("a.b", {}, "an agent's id is"),
}


@pytest.mark.parametrize(("name", "body", "sentence"), AGENTS.values(), ids=AGENTS)
def test_an_agent_that_can_not_be_is_refused(serving, conn, name, body, sentence):
    before = dump(conn)
    (reply,) = call(serving, ("PUT", f"/api/agents/{name}", {"json": body}))
    assert (reply.status_code, sentence in reply.json()["error"]) == (400, True)
    assert dump(conn) == before


def test_a_change_touches_nothing_else(serving, conn):
    make_agent(conn, "a", instructions="be kind", concurrency=4, timezone="Europe/Zurich")
    call(serving, ("PUT", "/api/agents/a", {"json": {"model": "m"}}))
    found = rows(conn, "SELECT model, instructions, concurrency, timezone FROM agents WHERE id = 'a'")
    assert found == [("m", "be kind", 4, "Europe/Zurich")]


# -- events


@contextlib.asynccontextmanager
async def _stream(**headers):
    """Read an event stream as it comes: a queue of its events (id, type, data)."""
    queue = asyncio.Queue()
    scope = {"type": "http", "method": "GET", "path": "/api/events/stream", "query_string": b"", "http_version": "1.1"}
    named = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in named.items()]

    async def receive():
        await asyncio.sleep(300)

    async def send(message):
        for block in message.get("body", b"").decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if fields:
                queue.put_nowait((fields.get("id"), fields["event"], json.loads(fields["data"])))

    task = asyncio.create_task(app_of(api)(scope, receive, send))
    try:
        assert (await asyncio.wait_for(queue.get(), 10))[1] == "connected"
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def append(conn, environment):
    """Events of another process, which says that there is news."""
    kicker = Kicker(environment)

    def happen(*types):
        with transaction(conn):
            for type_ in types:
                events.append(conn, type_, now_ms=5, message_id="m", data={"fact": 1})
        kicker.kick("api")

    yield happen
    kicker.close()


async def take(queue, count):
    return [await asyncio.wait_for(queue.get(), 10) for _ in range(count)]


def test_a_stream_tells_what_happens_from_now_on(serving, append):
    append("old")

    async def go():
        async with serving(api) as client, _stream() as queue:
            append("new")
            first = await take(queue, 1)
            await client.post("/api/message", json={"message": "hello"})
            return first + await take(queue, 1)

    new, received = asyncio.run(go())
    assert new == ("2", "new", {"type": "new", "timestamp": 5, "messageId": "m", "fact": 1})
    assert received[:2] == ("3", "message_received")


def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(serving, append):
    async def go():
        seen = []
        async with serving(api):
            append(*(f"e{number}" for number in range(3)))
            for round_ in range(4):
                async with _stream(last_event_id=seen[-1] if seen else "0") as queue:
                    append(f"during{round_}")
                    seen += [found[0] for found in await take(queue, 4 if round_ == 0 else 2)]
                append(f"between{round_}")
        return seen

    assert asyncio.run(go()) == [str(number) for number in range(1, 11)]


def test_a_long_absence_comes_in_batches_without_a_gap(serving, append):
    append(*["e"] * 1203)

    async def go():
        async with serving(api), _stream(last_event_id="0") as queue:
            return [found[0] for found in await take(queue, 1203)]

    assert asyncio.run(go()) == [str(number) for number in range(1, 1204)]


def test_after_a_restore_a_reader_from_the_lost_future_goes_on(serving, append):
    append("e")

    async def go():
        async with serving(api), _stream(last_event_id="5000") as queue:
            append("after")
            return await take(queue, 1)

    assert asyncio.run(go())[0][:2] == ("2", "after")


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 5000, "²"])
def test_an_id_that_is_none_is_refused(serving, given):
    reply = get(serving, "/api/events/stream", headers={"last-event-id": given.encode()})
    assert reply.status_code == 400


def test_streams_end_when_the_function_does(serving, conn):
    async def go():
        ended = asyncio.Event()

        async def read(service):
            async for _ in api._events(service, 0):
                pass
            ended.set()

        async with serving(api):
            reading = asyncio.create_task(read(api._held.get()))
            await asyncio.sleep(0.01)
            assert not ended.is_set()
        await asyncio.wait_for(reading, 0.5)
        return ended.is_set()

    assert asyncio.run(go())


def test_the_root_lists_what_can_be_asked(serving):
    assert "POST /api/message" in get(serving, "/").json()["postroom"]
