"""TinyAGI's programs against our API: they send and read the same fields, in the same order.

Names and types of the fields are those of TinyAGI's channel clients, command line and web office.
"""

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path

import pytest

from functions import api
from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, rows
from shared.db.queue import events
from shared.rest.live.feed import EventFeed
from shared.rest.live.unfetched_responses import UnfetchedResponses
from tests.api_client import ask, call, frames, get, post, stream
from tests.support import answer, column, make_agent, make_chat, put, take, wire


@pytest.fixture
def running(serving):
    """``api`` and ``dispatch``, running together; a client for ``api``."""

    @contextlib.asynccontextmanager
    async def start():
        dispatch = Dispatch(Settings.load())
        dispatch.worker.begin()
        try:
            async with serving(api, "localhost:3777") as client:
                yield client
        finally:
            await dispatch.close()

    return start


class ChannelClient:
    """A channel client: hears of a response, fetches its channel's pending responses, sends them and acks them.

    It remembers who asked. A response to an unknown message goes to the sender's id.
    """

    def __init__(self, http, channel):
        self.http = http
        self.channel = channel
        self.asked = {}
        self.sent = []

    async def receive(self, text, sender, sender_id, message_id, **more):
        """A person writes."""
        body = {"channel": self.channel, "sender": sender, "senderId": sender_id, "message": text, **more}
        await self.http.post("/api/message", json={**body, "messageId": message_id, "files": []})
        self.asked[message_id] = sender_id

    async def drain(self):
        """Send all pending responses."""
        reply = await self.http.get(f"/api/responses/pending?channel={self.channel}")
        assert reply.status_code == 200
        for response in reply.json():
            to = self.asked.pop(response["messageId"], None) or int(response["senderId"])
            files = response.get("files") or []
            metadata = response.get("metadata") or {}
            if response["message"]:
                self.sent.append((to, response["message"], files, metadata.get("parseMode")))
            await self.http.post(f"/api/responses/{response['id']}/ack")

    async def listen(self, queue, until):
        """Drain whenever the stream names a response for the channel."""
        await self.drain()
        while len(self.sent) < until:
            block = await asyncio.wait_for(queue.get(), 60)
            data = json.loads(block.get("data", "{}"))
            if block.get("event") in ("message:done", "response_ready") and data["channel"] == self.channel:
                await self.drain()


@pytest.mark.parametrize("channel", ["telegram", "discord", "whatsapp"])
def test_a_channel_client_hears_fetches_sends_and_acks(running, conn, channel):
    async def go():
        async with running() as http, stream() as queue:
            client = ChannelClient(http, channel)
            listening = asyncio.create_task(client.listen(queue, until=3))
            await client.receive("hello", "Ana Li", "4711", "1763740000000_x7f3a")
            await client.receive("hello", "Bo", "4712", "1763740000001_b9k2c")
            body = {
                "channel": channel,
                "sender": "Ana Li",
                "senderId": "4711",
                "message": "by the way",
                "agent": "assistant",
            }
            proactive = await http.post("/api/responses", json=body)
            await asyncio.wait_for(listening, 120)
            left = (await http.get(f"/api/responses/pending?channel={channel}")).json()
            return client.sent, proactive.json(), left

    sent, proactive, left = asyncio.run(go())
    assert sorted(sent, key=str) == [
        *(("4711", "You said: hello", [], None), ("4712", "You said: hello", [], None), (4711, "by the way", [], None))
    ]
    assert (proactive["ok"], proactive["messageId"][:10], left) == (True, "proactive_", [])
    assert column(conn, "SELECT DISTINCT status FROM responses") == ["acked"]


def test_a_returning_client_fetches_all_pending_responses_oldest_first(running, conn):
    async def go():
        async with running() as http:
            client = ChannelClient(http, "telegram")
            for number in range(3):
                name = f"m{number}"
                await client.receive(f"text {number}", "Ana", "4711", name)
                await http.get(f"/api/messages/{name}?wait=60")
            await client.drain()
            return [text for _, text, *_ in client.sent]

    assert asyncio.run(go()) == [f"You said: text {number}" for number in range(3)]


def test_a_client_is_reminded_of_responses_that_came_while_it_sent(serving):
    """It ignores events while it sends; without a reminder, later responses would wait for the next event."""
    told = {"sender": "Ana", "agentId": None, "responseLength": 3, "responseText": "two"}

    async def go():
        async with serving(api, "localhost:3777") as http, stream() as queue, stream("types=message:done") as choosy:
            for text in ("one", "two"):
                body = {"channel": "telegram", "sender": "Ana", "senderId": "4711", "message": text}
                await http.post("/api/responses", json=body)
            missed = [block for block in await frames(queue, 4) if block[2]["responseText"] == "two"]
            await frames(choosy, 2)
            first, _ = (await http.get("/api/responses/pending?channel=telegram")).json()
            await http.post(f"/api/responses/{first['id']}/ack")
            heard, chosen = await frames(queue, 2), await frames(choosy, 1)
            await http.post("/api/responses", json={"channel": "web", "sender": "Ana", "message": "three"})
            return missed, heard, chosen, await frames(queue, 1)

    missed, heard, chosen, following = asyncio.run(go())
    assert heard[0][1] == "response_acked"
    ((id_, name, data),) = again = heard[1:]
    assert (id_, name) == (None, "message:done")
    assert data == missed[0][2], "a viewer that knows it already can tell"
    assert data | told == data
    assert chosen == again
    assert following[0][2]["channel"] == "web", "a client that sends on response_ready would send it twice"


def test_a_client_is_reminded_of_responses_that_it_did_not_ack(conn):
    """It tries again only when it hears of a response, which may take hours."""
    answer(conn, "two", channel="cli")

    async def go():
        feed = EventFeed(conn, lambda _: asyncio.sleep(300))
        unfetched = UnfetchedResponses(conn, feed, unsent_s=0.01)
        reading = feed.read(events.latest_id(conn))
        first = asyncio.create_task(anext(reading))
        await asyncio.sleep(0)
        unfetched.watch("cli")
        told = [await asyncio.wait_for(first, 60), await asyncio.wait_for(anext(reading), 60)]
        unfetched.close()
        await feed.close()
        return told

    first, again = asyncio.run(go())
    assert first == again
    assert [line for line in first.decode().splitlines() if not line.startswith("data: ")] == [
        "event: message:done",
        "",
    ]


def test_an_ack_that_is_running_at_the_end_causes_no_reminder(conn, db):
    """The connection that it would read on is closed by then."""
    answer(conn, "two", channel="cli")
    trouble = []

    async def go():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context["message"]))
        reading = open_connection(db, readonly=True)
        feed = EventFeed(reading, lambda _: asyncio.sleep(300))
        unfetched = UnfetchedResponses(reading, feed, after_s=0.0)
        feed.readers = 1
        unfetched.close()
        unfetched.watch_again("cli")
        reading.close()
        for _ in range(3):  # by then a timer of zero seconds has fired
            await asyncio.sleep(0)

    asyncio.run(go())
    assert trouble == []


def test_a_reset_in_a_chat_or_on_the_command_line_starts_a_new_session(running, conn):
    """Both write a file into the agent's folder, in the workspace of the settings."""
    make_agent(conn, "coder")

    def leave(workspace):
        folder = Path(workspace, "coder")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reset_flag").write_text("reset")
        return folder

    async def go():
        async with running() as http:
            client = ChannelClient(http, "telegram")
            for number in range(4):
                if number == 2:
                    folder = leave((await http.get("/api/settings")).json()["workspace"]["path"])
                await client.receive("!count", "Ana", "4711", f"m{number}", agent="coder")
                await http.get(f"/api/messages/m{number}?wait=60")
            await client.drain()
            return folder, [text for _, text, *_ in client.sent]

    folder, said = asyncio.run(go())
    assert said == [f"This is turn {turn} of our session." for turn in (1, 2, 1, 2)]
    assert list(folder.iterdir()) == []


@pytest.fixture
def flag(conn, tmp_path):
    """The file of a reset, newer than the messages before it."""
    make_agent(conn, "coder")

    def leave():
        folder = tmp_path / "agents" / "coder"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reset_flag").write_text("reset")
        os.utime(folder / "reset_flag", ns=(time.time_ns(),) * 2)  # a file system's clock may be some ms behind
        return folder / "reset_flag"

    return leave


def to_coder(message_id):
    return {"channel": "cli", "sender": "cli", "agent": "coder", "message": "hello", "messageId": message_id}


def test_a_duplicate_message_uses_up_no_reset(serving, conn, flag):
    """The client repeats an unanswered request. That must not use up the reset, which belongs to the next message."""
    assert post(serving, to_coder("m1")).status_code == 200
    left = flag()
    assert post(serving, to_coder("m1")).status_code == 409
    assert left.exists()
    assert post(serving, to_coder("m2")).status_code == 200
    assert not left.exists()
    assert column(conn, "SELECT session_id FROM messages ORDER BY id") == [1, 2]


def test_two_concurrent_messages_share_one_new_session(serving, conn, flag):
    """They may share a transaction, and the file is removed after it."""
    assert post(serving, to_coder("m1")).status_code == 200
    flag()

    async def go():
        async with serving(api) as http:
            await asyncio.gather(*(http.post("/api/message", json=to_coder(name)) for name in ("m2", "m3")))

    asyncio.run(go())
    assert column(conn, "SELECT session_id FROM messages ORDER BY id") == [1, 2, 2]


def test_a_viewer_is_told_that_a_dispatch_runs(running, conn):
    async def go():
        async with running(), stream(last_event_id="0") as queue:
            return await frames(queue, 1)

    ((_, name, data),) = asyncio.run(go())
    assert (name, data["agents"], data["teams"]) == ("processor_start", ["assistant"], [])


# -- the command line


def test_send_prints_the_message_id(serving, conn):
    reply = post(serving, {"message": "hello", "channel": "cli", "sender": "cli"}, host="localhost:3777")
    body = reply.json()
    assert body["ok"] is True
    assert isinstance(body["messageId"], str)


def test_status_prints_the_queue_state(serving, conn):
    wire(conn, make_chat(conn))
    status, queue = (get(serving, path).json() for path in ("/api/status", "/api/queue/status"))
    assert status.pop("ok") is True
    assert isinstance(status.pop("uptime"), int)
    assert status == {
        "server": {"running": True, "port": 3777},
        "channels": {"telegram": {"running": False}},  # no deliver runs here
        "heartbeat": {"running": False, "interval": 0, "lastSent": {}},
        "replica": None,  # none is configured
    }
    assert {name: type(value) for name, value in queue.items()} == dict.fromkeys(
        ("incoming", "queued", "processing", "completed", "dead", "outgoing", "activeConversations"), int
    )


# -- the web office


@pytest.fixture
def office(monkeypatch):
    """The operator names the address of the office."""
    monkeypatch.setenv("POSTROOM_ORIGINS", "http://localhost:3000")


ORIGIN = {"origin": "http://localhost:3000", "content-type": "application/json"}


def test_the_office_connects(serving, conn, office):
    """It sends a content type with every call, so its browser sends a preflight request."""
    paths = ["/api/settings", "/api/agents", "/api/teams", "/api/queue/status", "/api/queue/processing"]
    paths += ["/api/responses?limit=20", "/api/logs?limit=100", "/api/status", "/api/tasks", "/api/projects"]
    paths += ["/api/pairing", "/api/custom-providers", "/api/agent-messages?limit=100&since_id=0"]
    paths += ["/api/agents/assistant/messages?limit=200&since_id=0", "/api/agents/assistant/skills"]
    paths += [f"/api/agents/assistant/{name}" for name in ("system-prompt", "memory", "heartbeat")]
    asking = {**ORIGIN, "access-control-request-method": "GET", "access-control-request-headers": "content-type"}
    asked = call(serving, *(("OPTIONS", path, {"headers": asking}) for path in paths), host="localhost:3777")
    replies = call(serving, *(("GET", path, {"headers": ORIGIN}) for path in paths), host="localhost:3777")
    assert {reply.status_code for reply in asked} == {204}
    assert {reply.status_code for reply in replies} == {200}
    assert {reply.headers["access-control-allow-origin"] for reply in asked + replies} == {ORIGIN["origin"]}


def test_the_office_shows_agents_by_these_names(serving, conn):
    agent = get(serving, "/api/agents").json()["assistant"]
    names = ("name", "provider", "model", "working_directory", "system_prompt")
    assert {type(agent[name]) for name in names} == {str}


def test_the_office_can_save_an_agent_as_it_was_shown(serving, conn):
    """It sends the whole agent back, but only TinyAGI's fields."""
    make_agent(conn, "coder", instructions="be kind", concurrency=4)
    shown = get(serving, "/api/agents").json()["coder"]
    kept = {name: shown[name] for name in ("name", "provider", "model", "working_directory", "system_prompt")}
    reply = ask(serving, "PUT", "/api/agents/coder", {**kept, "name": "The Coder", "prompt_file": ""})
    assert reply.json() == {"ok": True, "agent": {**shown, "name": "The Coder"}, "provisioned": False}
    assert column(conn, "SELECT concurrency FROM agents WHERE id = 'coder'") == [4]


REFUSED_AGENTS = {
    "a folder elsewhere": ({"working_directory": "/etc"}, "working_directory must be a folder below"),
    "a folder above": ({"working_directory": "../x"}, "working_directory must be a folder below"),
    "the folder of all": ({"working_directory": "."}, "working_directory must be a folder below"),
    "a file to read": ({"prompt_file": "/etc/passwd"}, "prompt_file: "),
    "a heartbeat": ({"heartbeat": {"enabled": True, "interval": 60}}, "heartbeat.enabled: "),
    "two prompts": ({"system_prompt": "a", "instructions": "b"}, "system_prompt and instructions are the same"),
    "an unknown provider": ({"provider": "claudius"}, "unknown provider 'claudius'; known: "),
}


@pytest.mark.parametrize(("body", "sentence"), REFUSED_AGENTS.values(), ids=REFUSED_AGENTS)
def test_unsupported_agent_fields_are_refused(serving, conn, body, sentence):
    reply = ask(serving, "PUT", "/api/agents/a", body)
    assert (reply.status_code, sentence in reply.json()["error"]) == (400, True)
    assert column(conn, "SELECT id FROM agents") == ["assistant"]


def test_an_agents_own_folder_is_kept(serving, conn, tmp_path):
    for given in ("teams/coder", f"{tmp_path}/agents/teams/coder"):
        reply = ask(serving, "PUT", "/api/agents/coder", {"working_directory": given})
        assert reply.json()["agent"]["working_directory"] == f"{tmp_path}/agents/teams/coder"
    assert column(conn, "SELECT folder FROM agents WHERE id = 'coder'") == ["teams/coder"]


def test_the_offices_chat_writes_to_an_agent_and_reads_its_history(running, conn):
    make_agent(conn, "coder")

    async def go():
        async with running() as http:
            body = {"message": "@coder hello", "sender": "Web", "channel": "web"}
            message_id = (await http.post("/api/message", json=body)).json()["messageId"]
            await http.get(f"/api/messages/{message_id}?wait=60")
            newest = (await http.get("/api/agents/coder/messages?limit=200&since_id=0")).json()
            later = (await http.get(f"/api/agents/coder/messages?limit=200&since_id={newest[1]['id']}")).json()
            of = {
                channel: (await http.get(f"/api/agents/coder/messages?channel={channel}")).json()
                for channel in ("web", "telegram", "")
            }
            return message_id, newest, later, of

    message_id, newest, later, of = asyncio.run(go())
    assert of == {"web": newest, "telegram": [], "": newest}
    assert [(each["role"], each["content"]) for each in newest] == [
        *(("assistant", "You said: @coder hello"), ("user", "@coder hello"))
    ]
    assert later == newest[:1]
    assert newest[1] | {"id": 0, "created_at": 0} == {
        **{"id": 0, "agent_id": "coder", "role": "user", "channel": "web", "sender": "Web"},
        **{"message_id": message_id, "content": "@coder hello", "created_at": 0},
    }


def test_a_running_message_is_shown_and_can_be_killed(serving, conn):
    row_id = put(conn, given_id="m_1")
    take(conn)
    (shown,) = get(serving, "/api/queue/processing").json()
    assert {name: type(value).__name__ for name, value in shown.items()} == {
        **{"id": "int", "messageId": "str", "channel": "str", "sender": "str", "message": "str", "agent": "str"},
        **{"status": "str", "processAlive": "bool", "startedAt": "int", "duration": "int"},
    }
    assert (shown["id"], shown["messageId"], shown["status"]) == (row_id, "m_1", "processing")
    assert get(serving, "/api/queue/agents").json() == [
        {"agent": "assistant", "pending": 0, "queued": 0, "processing": 1}
    ]
    killed = post(serving, {}, f"/api/queue/processing/{row_id}/kill").json()
    assert killed == {"ok": True, "agent": "assistant", "processKilled": True}


def test_the_office_gets_a_reason_for_every_refusal(serving, conn, office):
    """It shows the sentence in ``error``."""
    for method, path, body in [
        *(("PUT", "/api/settings", {"models": {}}), ("POST", "/api/setup", {}), ("POST", "/api/services/restart", {})),
        *(("POST", "/api/tasks", {"title": "x"}), ("POST", "/api/pairing/approve", {"code": "A"})),
    ]:
        reply = ask(serving, method, path, body, headers=ORIGIN, host="localhost")
        assert reply.status_code in (404, 501)
        assert reply.json()["error"]


def test_what_is_planned_for_tomorrow_is_not_incoming(serving, conn):
    make_agent(conn, "coder")
    tomorrow = {"agentId": "coder", "message": "tidy up", "cron": "0 9 1 1 *"}
    assert post(serving, tomorrow, "/api/schedules").status_code == 200
    assert post(serving, {"message": "later", "processAfter": 4_000_000_000_000}).status_code == 200
    status = get(serving, "/api/queue/status").json()
    assert (status["incoming"], get(serving, "/api/queue/agents").json()) == (0, [])
    put(conn)
    rows(conn, "UPDATE messages SET process_after = 4000000000000, failure = 'error' WHERE id = 3")
    assert get(serving, "/api/queue/status").json()["incoming"] == 1, "a message that waits for a retry has come in"
    assert get(serving, "/api/queue/agents").json() == [
        {"agent": "assistant", "pending": 1, "queued": 0, "processing": 0}
    ]


@pytest.mark.parametrize("provider", ["openai", "opencode"])
def test_the_office_can_make_an_agent_of_a_real_program(serving, conn, provider):
    body = {"name": "Coder", "provider": provider, "model": "m", "working_directory": "coder", "system_prompt": ""}
    reply = ask(serving, "PUT", "/api/agents/coder", body).json()
    assert (reply["ok"], reply["agent"]["provider"], "note" in reply) == (True, provider, False)
    assert column(conn, "SELECT provider FROM agents WHERE id = 'coder'") == [provider]


@pytest.mark.parametrize("provider", ["anthropic"])
def test_the_office_can_make_an_agent_with_each_provider_that_it_offers(serving, conn, provider):
    body = {"name": "Coder", "provider": provider, "model": "sonnet", "working_directory": "coder", "system_prompt": ""}
    reply = ask(serving, "PUT", "/api/agents/coder", body).json()
    assert (reply["ok"], reply["provisioned"], reply["agent"]["provider"]) == (True, True, provider)
    assert column(conn, "SELECT provider FROM agents WHERE id = 'coder'") == [provider]
