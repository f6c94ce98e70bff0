"""Outages: a platform that can't be reached, and a platform that refuses our token."""

import asyncio
import json

import httpx
import pytest
import structlog

from functions.deliver import Deliver
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.runtime.http_client import HttpClient
from tests.approval_requests import person
from tests.functions.test_deliver import Platform, held, refuse, sent, service_of, step, unreachable, worked
from tests.support import answer, column, make_chat, row


def test_a_platform_that_cannot_be_reached_costs_no_attempt_and_keeps_the_order(conn):
    answer(conn, "one")
    answer(conn, "two")
    for _ in range(8):
        step(Platform(unreachable))
        held(conn)
    found = row(conn, "responses", 1)
    assert (found["status"], found["retry_count"], found["part_started"]) == ("pending", 0, None)
    assert found["unsent_since"] is not None
    assert step(Platform(), 2).texts == ["one", "two"]
    assert row(conn, "responses", 1)["unsent_since"] is None


def test_a_part_that_went_through_ends_the_outage_of_a_response(conn):
    """Else the next failure of its other parts, a day after the first one, made the answer dead at once."""
    answer(conn, "x" * 5000)
    rows(conn, "UPDATE responses SET unsent_since = 1")
    step(Platform(sent, unreachable))
    found = row(conn, "responses", 1)
    assert (found["status"], found["parts"], found["retry_count"]) == ("pending", '["9001"]', 0)
    assert found["unsent_since"] > 1


def test_a_refused_connection_costs_no_attempt(conn, monkeypatch):
    """Over the real HTTP client: nothing listens at the address of the tests."""
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")
    answer(conn)

    async def go():
        service = Deliver(Settings.load(), HttpClient())
        await worked(service)
        await service.close()

    asyncio.run(go())
    found = row(conn, "responses")
    assert (found["status"], found["retry_count"]) == ("pending", 0)
    assert found["last_error"] == "Telegram can't be reached (ConnectError); nothing was sent"


class Gate(Platform):
    """Discord accepts its token; Telegram refuses its token until it is *accepted*."""

    def __init__(self, *, accepted=False, status=401):
        super().__init__()
        self.accepted = accepted
        self.status = status

    async def __call__(self, request):
        if self.accepted or "/bot" not in request.url.path:
            return await super().__call__(request)
        self.requests.append((request.method, request.url.path, json.loads(request.content)))
        return refuse(self.status)(0)

    @property
    def methods(self):
        return [path.rpartition("/")[2] for _, path, _ in self.requests]


def due(conn):
    with transaction(conn):
        rows(conn, "UPDATE channel_pauses SET check_at = 0")


@pytest.mark.parametrize("status", [401, 404])
def test_a_refused_token_pauses_its_channel_and_costs_no_attempt(conn, status):
    answer(conn, "one", chat="1")
    answer(conn, "two", chat="2")
    answer(conn, "other", channel="discord")
    platform = step(Gate(status=status), 3)
    assert sorted(platform.methods) == ["getMe", "getMe", "messages", "sendMessage", "sendMessage"]
    assert rows(conn, "SELECT status, retry_count, part_started FROM responses ORDER BY id") == [
        ("pending", 0, None),
        ("pending", 0, None),
        ("acked", 0, None),
    ]
    assert column(conn, "SELECT channel FROM channel_pauses") == ["telegram"]
    assert column(conn, "SELECT channel FROM events WHERE type = 'channel_paused'") == ["telegram"]


def test_a_paused_channel_asks_about_its_token_only_when_that_is_due(conn):
    answer(conn)
    step(Gate())
    assert step(Gate(), 2).requests == []
    due(conn)
    assert step(Gate(), 2).methods == ["getMe"]
    ((check_at, paused_at),) = rows(conn, "SELECT check_at, paused_at FROM channel_pauses")
    assert check_at >= paused_at + 60_000


def test_an_accepted_token_sends_everything_in_order(conn):
    for text in ("one", "two"):
        answer(conn, text, chat="1")
    answer(conn, "three", chat="2")
    step(Gate())
    platform = Gate(accepted=True)

    async def restart():
        service = service_of(platform)
        await service.repair()  # another process, perhaps with another token
        for _ in range(3):
            await worked(service)
        await service.close()

    asyncio.run(restart())
    assert platform.methods == ["getMe", "sendMessage", "sendMessage", "sendMessage"]
    texts = [text for text in platform.texts if text]
    assert sorted(texts) == ["one", "three", "two"]
    assert texts.index("one") < texts.index("two")
    assert column(conn, "SELECT status FROM responses") == ["acked"] * 3
    assert column(conn, "SELECT count(*) FROM channel_pauses") == [0]
    assert column(conn, "SELECT type FROM events WHERE type GLOB 'channel_*'") == ["channel_paused", "channel_resumed"]


@pytest.mark.parametrize("problem", [unreachable, refuse(502), refuse(429)])
def test_a_token_is_not_accepted_while_the_platform_cannot_be_asked(conn, problem):
    answer(conn)
    step(Gate())
    due(conn)
    step(Platform(problem))
    assert column(conn, "SELECT channel FROM channel_pauses") == ["telegram"]
    assert row(conn, "responses")["retry_count"] == 0


def test_a_call_that_is_refused_with_an_accepted_token_costs_an_attempt(conn):
    """Otherwise a platform that refuses one call would hold up the channel for ever."""
    answer(conn, "one", chat="1")
    answer(conn, "two", chat="2")

    def only_this_call(_):
        return httpx.Response(401, json={"ok": False, "error_code": 401, "description": "Unauthorized"})

    platform = step(Platform(only_this_call, sent), 2)
    assert column(conn, "SELECT count(*) FROM channel_pauses") == [0]
    found = row(conn, "responses", 1)
    assert (found["status"], found["retry_count"]) == ("pending", 1)
    assert row(conn, "responses", 2)["status"] == "acked"
    assert platform.requests[1][1].endswith(("getMe", "sendMessage"))


def test_the_pause_is_logged_once(conn):
    for chat in "123":
        answer(conn, chat=chat)
    with structlog.testing.capture_logs() as lines:
        step(Gate(), 2)
    assert [line["channel"] for line in lines if line["event"] == "deliver.channel_paused"] == ["telegram"]


def test_an_outage_with_bad_gateways_costs_attempts_that_are_recorded_as_unknown(conn):
    """A bad gateway may have passed the message on; so each try could be a second message."""
    answer(conn)
    step(Platform(refuse(502)))
    found = row(conn, "responses")
    assert (found["status"], found["failure"], found["retry_count"]) == ("pending", "outcome_unknown", 1)


def test_an_owner_is_told_of_an_answer_whose_topic_is_closed_and_it_goes_nowhere_else(conn):
    person(conn, "7", "owner")
    make_chat(conn, "-100", is_group=True)
    answer(conn, "a secret plan", chat="-100", thread_id="17")
    platform = step(Platform(refuse(400, description="Bad Request: TOPIC_CLOSED"), sent), 3)
    assert [(body["chat_id"], body.get("message_thread_id")) for _, _, body in platform.requests] == [
        (-100, 17),
        (7, None),
    ]
    assert "secret plan" not in platform.texts[1]
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["dead", "acked"]
