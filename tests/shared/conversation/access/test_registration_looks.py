"""Looks at what is registered at the platforms, over the rows and the real adapters."""

import asyncio

import httpx

from shared.conversation.access.registration_looks import RegistrationLooks
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.engine.group_commit import Writer
from shared.db.platforms import channel_watches
from shared.runtime.http_client import RequestNotSent
from tests.fake_client import FakeClient
from tests.serving import environment
from tests.support import NOW, column

__all__ = ["environment"]
MINUTE = 60_000
WEBHOOK = {"url": "https://bot.example/webhooks/telegram", "pending_update_count": 0}


class Telegram:
    """Says what is registered, and counts the questions. Discord can't be reached."""

    def __init__(self, answer):
        self.answer = answer
        self.questions = 0

    def __call__(self, request):
        if "/bot" not in request.url.path:
            raise RequestNotSent("refused")
        self.questions += 1
        return self.answer


def looks(platform, *instants):
    async def go():
        settings = Settings.load()
        writer = Writer(settings.db)
        watching = RegistrationLooks(settings, writer, FakeClient(platform))
        try:
            return [await watching.look(now_ms=now_ms) for now_ms in instants]
        finally:
            await watching.close()
            writer.close()

    return asyncio.run(go())


def ok(**facts):
    return httpx.Response(200, json={"ok": True, "result": {**WEBHOOK, **facts}})


def test_a_bot_without_a_webhook_is_deaf_at_the_first_look_and_asked_again_after_four_minutes(conn):
    platform = Telegram(ok(url=""))
    assert looks(platform, NOW, NOW + 4 * MINUTE - 1, NOW + 4 * MINUTE) == [["telegram"], [], ["telegram"]]
    assert platform.questions == 2
    (watch,) = channel_watches.deaf(conn)
    assert (watch.code, watch.since, watch.looked_at) == ("not_registered", NOW, NOW + 4 * MINUTE)


def test_a_platform_that_does_not_answer_says_nothing_about_the_way_in(conn):
    assert looks(Telegram(httpx.Response(502)), NOW) == [[]]
    assert channel_watches.every(conn) == {}


def test_a_bug_in_one_channel_leaves_the_other_channels_their_looks(conn):
    def odd(request):
        if "/bot" in request.url.path:
            raise RuntimeError("a bug")
        application = {"id": "1290000000000000001", "interactions_endpoint_url": None}
        return httpx.Response(200, json=application)

    assert looks(odd, NOW) == [["discord"]]


def test_a_refused_token_pauses_the_channel_and_is_not_asked_again(conn):
    platform = Telegram(httpx.Response(401, json={"ok": False, "description": "Unauthorized"}))
    assert looks(platform, NOW, NOW + 5 * MINUTE) == [[], []]
    assert platform.questions == 1
    assert column(conn, "SELECT channel FROM channel_pauses") == ["telegram"]


def test_a_channel_in_an_outage_is_left_to_its_probes(conn):
    with transaction(conn):
        rows(
            conn,
            "INSERT INTO channel_outages (channel, began_at, code, reason, probe_at) VALUES"
            " ('telegram', 1, 'unreachable', 'no', 9)",
        )
    platform = Telegram(ok())
    looks(platform, NOW)
    assert platform.questions == 0
