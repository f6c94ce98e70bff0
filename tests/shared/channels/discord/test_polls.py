"""Polls and threads of the Discord adapter."""

import asyncio

import httpx

from shared.channels.base import Outgoing, Part, Poll
from tests.fake_client import FakeClient
from tests.shared.channels.discord.sending import BASE, NOW, Platform, ok, send

POLL = Poll("Lunch?", ("Pizza", "Noodles"), is_multiple=False, hours=24)


def test_a_poll_is_discords_own(discord):
    platform = Platform(ok())
    assert send(discord, platform, context={}, part=Part("Lunch?\n- Pizza"), poll=POLL) == "4242"
    assert platform.calls == [f"POST {BASE}/channels/200/messages"]
    (body,) = platform.bodies
    assert "content" not in body
    assert body["poll"] == {
        "question": {"text": "Lunch?"},
        "answers": [{"poll_media": {"text": "Pizza"}}, {"poll_media": {"text": "Noodles"}}],
        "allow_multiselect": False,
        "duration": 24,
    }


def test_a_thread_is_public_and_has_the_id_that_discord_gives(discord):
    platform = Platform(httpx.Response(201, json={"id": "555"}))
    to = Outgoing(1, 0, "200", None, None, {}, NOW, is_first=True)
    assert asyncio.run(discord.make_topic("Plans", to, FakeClient(platform))) == "555"
    assert platform.calls == [f"POST {BASE}/channels/200/threads"]
    assert platform.bodies == [{"name": "Plans", "type": 11, "auto_archive_duration": 1440}]
