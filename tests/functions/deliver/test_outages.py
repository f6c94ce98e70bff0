"""Outages: a platform that can't be reached, and a platform that refuses our token."""

import asyncio
import json

import httpx
import pytest
import structlog

from functions.deliver import Deliver
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import NoAnswer
from tests.approval_requests import person
from tests.functions.deliver.sending import (
    Alive,
    Platform,
    asks_about_sends,
    held,
    refuse,
    sent,
    service_of,
    silent,
    step,
    unreachable,
    worked,
)
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
    assert step(Platform(), 2).texts == [None, "one", "two"]
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
    assert found["last_error"] == "Telegram can't be reached (ConnectionRefusedError); nothing was sent"


def held_until_probe(conn):
    """The next probe is due; the responses keep their order of failure."""
    with transaction(conn):
        rows(conn, "UPDATE channel_outages SET probe_at = 1")
        rows(conn, "UPDATE responses SET deliver_after = id WHERE deliver_after IS NOT NULL")


class Picky(Alive):
    """Fails with a server error for the bodies that *fails* names."""

    def __init__(self, fails):
        super().__init__()
        self.fails = fails

    async def __call__(self, request):
        if self.fails(json.loads(request.content or b"{}")):
            return refuse(500)(0)
        return await super().__call__(request)


class Gate(Platform):
    """Discord accepts its token; Telegram refuses its token until it is *accepted*.

    It refuses no message before *together* of them are under way.
    """

    def __init__(self, *, accepted=False, status=401, together=1, **fields):
        super().__init__()
        self.accepted = accepted
        self.status = status
        self.fields = fields
        self._together = asyncio.Barrier(together)

    async def __call__(self, request):
        if self.accepted or "/bot" not in request.url.path:
            return await super().__call__(request)
        self.requests.append((request.method, request.url.path, json.loads(request.content)))
        if request.url.path.endswith("/sendMessage"):
            async with asyncio.timeout(10):
                await self._together.wait()
        return refuse(self.status, **self.fields)(0)

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
    platform = step(Gate(status=status, together=2), 3)
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


@pytest.mark.parametrize("channel", ["telegram", "discord"])
def test_a_bad_gateway_costs_no_attempt_and_may_have_passed_the_message_on(conn, channel):
    answer(conn, channel=channel)
    for _ in range(8):
        step(Platform(refuse(502)))
        held(conn)
    found = row(conn, "responses")
    assert (found["status"], found["failure"], found["retry_count"]) == ("pending", "outcome_unknown", 0)
    assert step(Platform(), 2).texts == [None, "hi"]
    assert row(conn, "responses")["status"] == "acked"


@pytest.mark.parametrize("problem", [unreachable, refuse(503), silent])
def test_an_outage_holds_the_channel_and_one_probe_at_a_time_asks_again(conn, problem, monkeypatch):
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")
    for chat in "12345":
        answer(conn, f"to {chat}", chat=chat)
    step(Platform(problem), 3)
    answer(conn, "elsewhere", channel="discord")
    assert step(Platform(), 2).texts == ["elsewhere"]
    held(conn)
    probes = step(Platform(problem), 3)
    assert [(path.rpartition("/")[2]) for _, path, _ in probes.requests] == ["getMe"]
    held(conn)
    platform = step(Platform(), 3)
    assert platform.requests[0][1].endswith("/getMe")
    assert sorted(text for text in platform.texts if text) == [f"to {chat}" for chat in "12345"]
    assert column(conn, "SELECT type FROM events WHERE type GLOB 'channel_outage_*' AND channel = 'telegram'") == [
        "channel_outage_began",
        "channel_outage_ended",
    ]


class NoSends(Platform):
    """Telegram answers to everything but messages; to none, or to none that it would send."""

    def __init__(self, *, is_all=True):
        super().__init__()
        self.is_all = is_all

    async def __call__(self, request):
        answered = await super().__call__(request)
        if request.url.path.endswith("/sendMessage") and (self.is_all or not asks_about_sends(request)):
            raise NoAnswer("nothing came")
        return answered

    @property
    def copies(self):
        return [text for text in self.texts if text]


def test_a_method_without_answers_is_an_outage_and_costs_no_attempt(conn, monkeypatch):
    """Five attempts within five minutes made the answer dead, and then the next one, while the status was ready."""
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "2")
    for text in ("one", "two"):
        answer(conn, text, chat="1")
    platform = NoSends()
    for _ in range(8):
        step(platform)
        held(conn)
    assert platform.copies == ["one"]
    assert rows(conn, "SELECT status, retry_count FROM responses") == [("pending", 0)] * 2
    assert column(conn, "SELECT code FROM channel_outages WHERE probe_at IS NOT NULL") == ["no_answer"]
    later = step(Platform(), 3)
    assert [text for text in later.texts if text] == ["one", "two"]
    assert column(conn, "SELECT status FROM responses") == ["acked"] * 2


def test_messages_of_several_chats_without_an_answer_are_an_outage_and_none_is_sent_three_times(conn, monkeypatch):
    """Telegram refuses what it would not send, and answers to nothing that it sends."""
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "2")
    for chat in "123":
        answer(conn, f"to {chat}", chat=chat)
    platform = NoSends(is_all=False)
    for _ in range(12):
        step(platform)
        held(conn)
    assert sorted(platform.copies) == ["to 1", "to 1", "to 2", "to 2", "to 3", "to 3"]
    assert rows(conn, "SELECT status, failure FROM responses") == [("dead", "outcome_unknown")] * 3
    assert column(conn, "SELECT count(*) FROM events WHERE type = 'channel_outage_began'") == [1]


def test_a_platform_that_answers_and_cannot_send_is_probed_by_one_response_at_a_time(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")
    for chat in "123":
        answer(conn, f"to {chat}", chat=chat)
    step(Alive(refuse(500)), 2)
    for _ in range(3):
        held_until_probe(conn)
        assert len(step(Alive(refuse(500)), 3).requests) == 1
    assert column(conn, "SELECT DISTINCT status || retry_count FROM responses") == ["pending0"]


def test_a_response_that_the_platform_cannot_digest_holds_no_other_and_ends(conn, monkeypatch):
    """The others go out between its tries, so its failures are its own, and count."""
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "2")
    answer(conn, "poison", chat="1")

    def fails(body):
        return body.get("text") == "poison"

    for number in range(8):
        answer(conn, f"text {number}", chat="2")
        held(conn)
        step(Picky(fails), 4)
    found = row(conn, "responses", 1)
    assert (found["status"], found["retry_count"]) == ("dead", 5)
    assert column(conn, "SELECT DISTINCT status FROM responses WHERE id > 1") == ["acked"]


def test_what_waits_longer_than_the_limit_is_dead_with_the_outage_as_its_reason(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_OUTAGE_LIMIT_HOURS", "2")
    for chat in "123":
        answer(conn, chat=chat)
    step(Platform(unreachable))
    answer(conn, "young", chat="4")
    hours_ms = 2 * 3_600_000
    with transaction(conn):
        rows(conn, "UPDATE channel_outages SET began_at = began_at - :ms", {"ms": hours_ms})
        rows(conn, "UPDATE responses SET created_at = created_at - :ms WHERE chat_id < 4", {"ms": hours_ms})
        rows(conn, "UPDATE responses SET unsent_since = unsent_since - :ms", {"ms": hours_ms})
    held(conn)
    step(Platform(unreachable), 2)
    assert rows(conn, "SELECT status, retry_count FROM responses ORDER BY id") == [("dead", 0)] * 3 + [("pending", 0)]
    assert row(conn, "responses", 2)["last_error"].endswith("given up after 2 hours")


def test_a_token_that_is_refused_after_an_outage_pauses_the_channel(conn):
    answer(conn)
    step(Platform(unreachable))
    held(conn)
    step(Gate())
    assert column(conn, "SELECT channel FROM channel_pauses") == ["telegram"]
    assert column(conn, "SELECT count(*) FROM channel_outages WHERE probe_at IS NOT NULL") == [0]


def test_a_bot_that_was_told_to_wait_sends_nothing_to_any_chat_until_then(conn):
    for chat in "123":
        answer(conn, f"to {chat}", chat=chat)
    answer(conn, "elsewhere", channel="discord")
    first = step(Gate(status=429, together=3, parameters={"retry_after": 90}), 1)
    assert len(first.requests) == 4  # with the one to Discord; claimed together, before the first answer
    answer(conn, "and again", channel="discord")
    answer(conn, "later", chat="9")
    rows(conn, "UPDATE chats SET not_before = NULL")
    rows(conn, "UPDATE responses SET deliver_after = NULL")
    assert step(Platform(), 2).texts == ["and again"]
    held(conn)
    assert sorted(step(Platform(), 2).texts) == ["later", "to 1", "to 2", "to 3"]


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
