"""TinyAGI's programs against our API: they send and read the same fields, in the same order.

Names and types of the fields are those of TinyAGI's channel clients, command line and web office.
"""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from functions import api
from shared.db.engine.connection import open_connection
from shared.db.queue import events
from shared.rest.live.feed import EventFeed
from shared.rest.live.unfetched_responses import UnfetchedResponses
from tests.api_client import frames, get, post, stream
from tests.support import answer, column, make_agent, make_chat, wire


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
