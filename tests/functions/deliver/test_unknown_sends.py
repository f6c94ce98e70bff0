"""A send of unknown outcome is settled by what stands in the channel, where that can be read."""

import asyncio
import json

import httpx
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.runtime.http_client import NoAnswer
from tests.functions.deliver.sending import Alive, held, refuse, service_of, step, worked
from tests.support import NOW, answer, column, row


class Channel42(Alive):
    """Discord: what is sent arrives, and its first answers get lost; the channel can be read, or not."""

    def __init__(self, *, lost=1, may_read=True):
        super().__init__()
        self.lost = lost
        self.may_read = may_read
        self.messages = []
        self.questions = 0  # about the token

    async def __call__(self, request):
        self.questions += request.url.path.endswith("/users/@me")
        if request.method == "GET" and request.url.path.endswith("/messages"):
            self.requests.append(("GET", request.url.path, {}))
            return httpx.Response(200, json=self.messages) if self.may_read else refuse(403, code=50001)(0)
        answered = await super().__call__(request)
        if request.url.path.endswith("/messages"):
            author = {"id": "1290000000000000001"}
            content = json.loads(request.content)["content"]
            self.messages.append({"id": str(9000 + len(self.requests)), "author": author, "content": content})
            if len(self.messages) <= self.lost:
                raise NoAnswer("the connection broke")
        return answered

    @property
    def calls(self):
        return [method for method, path, _ in self.requests if path.endswith("/messages")]


def tried_an_hour_ago(conn):
    held(conn)
    with transaction(conn):
        rows(conn, "UPDATE unknown_sends SET tried_from = tried_from - 3600000")


@pytest.mark.parametrize("policy", ["resend", "hold"])
def test_a_send_without_an_answer_is_settled_by_what_stands_in_the_channel(conn, monkeypatch, policy):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", policy)
    answer(conn, "the answer", channel="discord")
    platform = Channel42()
    step(platform)
    assert row(conn, "responses")["failure"] == "outcome_unknown"
    tried_an_hour_ago(conn)
    step(platform)
    found = row(conn, "responses")
    assert platform.calls == ["POST", "GET"]
    assert (found["status"], found["parts"]) == ("acked", '["9001"]')
    assert rows(conn, "SELECT part, evidence, message_id FROM unknown_sends") == [(0, "arrived", "9001")]


def test_within_minutes_discord_recognises_the_repetition(conn):
    answer(conn, "the answer", channel="discord")
    platform = Channel42()
    step(platform)
    rows(conn, "UPDATE unknown_sends SET tried_from = tried_from + 50000")
    held(conn)
    step(platform)
    assert platform.calls == ["POST", "POST"]
    first, second = (body["nonce"] for method, path, body in platform.requests if path.endswith("/messages"))
    assert first == second
    assert column(conn, "SELECT evidence FROM unknown_sends") == ["repeatable"]


@pytest.mark.parametrize(("policy", "calls", "status"), [("resend", 2, "acked"), ("hold", 1, "dead")])
def test_where_the_channel_cannot_be_read_policy_decides(conn, monkeypatch, policy, calls, status):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", policy)
    answer(conn, "the answer", channel="discord")
    platform = Channel42(may_read=False)
    step(platform)
    tried_an_hour_ago(conn)
    step(platform)
    found = row(conn, "responses")
    assert (platform.calls.count("POST"), found["status"]) == (calls, status)
    assert column(conn, "SELECT evidence FROM unknown_sends") == ["none"]
    assert platform.questions == 1, "a platform that shows nothing has answered: there is no outage to look for"
    if policy == "hold":
        assert (found["failure"], found["part_started"]) == ("outcome_unknown", 0)


def test_a_deliver_that_was_killed_while_it_sent_asks_the_channel_when_it_is_back(conn):
    id_ = answer(conn, "the answer", channel="discord")
    with transaction(conn):
        rows(conn, "UPDATE responses SET created_at = 1700000000000")
        responses.claim(conn, id_, token="gone", now_ms=NOW, lease_ms=1)
    platform = Channel42(lost=0)
    platform.messages = [{"id": "77", "author": {"id": "1290000000000000001"}, "content": "the answer"}]

    async def restart():
        service = service_of(platform)
        await service.repair()
        held(conn)
        await worked(service)
        await service.close()

    asyncio.run(restart())
    assert platform.calls == ["GET"]
    assert row(conn, "responses")["parts"] == '["77"]'
