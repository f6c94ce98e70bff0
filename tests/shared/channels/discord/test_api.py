"""Reactions, typing, downloads and what is registered, against a function that plays Discord."""

import asyncio

import httpx
import pytest

from shared.channels.base import Outgoing
from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.settings import DiscordSettings
from shared.core.errors import NotFetched, PermanentError, PlaceGone, RateLimited, RetryableError, TokenRefused
from shared.runtime.http_client import NoAnswer
from tests.fake_client import FakeClient
from tests.shared.channels.discord.sending import BASE, NOW, Platform, refusal

CDN = "https://cdn.discordapp.com/attachments/1/2/a.txt?ex=6742&is=6741&hm=ab"
MESSAGE_URL = f"{BASE}/channels/200/messages/77"


def recorder(*answers):
    """A platform that gives each answer in turn, then 204."""
    return Platform(*answers, httpx.Response(204))


def to(**context):
    return Outgoing(1, 0, "200", None, None, context, NOW, is_first=True)


def run(work):
    return asyncio.run(work)


@pytest.mark.parametrize(
    ("emoji", "path"),
    [("👀", "%F0%9F%91%80"), ("custom:41771983429993937", "_%3A41771983429993937"), ("../x", "..%2Fx")],
)
def test_a_reaction_is_one_call_with_the_emoji_encoded(discord, emoji, path):
    platform = recorder()
    run(discord.react(emoji, "77", to(), FakeClient(platform)))
    assert platform.calls == [f"PUT {MESSAGE_URL}/reactions/{path}/@me"]


def test_taking_our_reaction_back_takes_ours_alone(discord):
    mine = {"emoji": {"id": None, "name": "👍"}, "me": True, "count": 2}
    custom = {"emoji": {"id": "5", "name": "LUL"}, "me": True, "count": 1}
    others = {"emoji": {"id": None, "name": "🎉"}, "me": False, "count": 1}
    platform = recorder(httpx.Response(200, json={"id": "77", "reactions": [mine, custom, others]}))
    run(discord.react(None, "77", to(), FakeClient(platform)))
    assert platform.calls[1:] == [
        f"DELETE {MESSAGE_URL}/reactions/%F0%9F%91%8D/@me",
        f"DELETE {MESSAGE_URL}/reactions/LUL%3A5/@me",
    ]


def test_a_command_is_no_message_to_react_to(discord):
    platform = recorder()
    with pytest.raises(PermanentError, match="command"):
        run(discord.react("👀", "77", to(interaction_id="77"), FakeClient(platform)))
    assert platform.calls == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(404, 10008), PermanentError),
        (refusal(400, 10014), PermanentError),
        (refusal(404, 10003), PlaceGone),
        (refusal(401, 0), TokenRefused),
        (refusal(500, 0), RetryableError),
        (NoAnswer("gone"), RetryableError),
        (httpx.Response(429, json={"retry_after": 1.5}), RateLimited),
    ],
)
def test_a_reaction_that_fails_says_how(discord, answer, error):
    with pytest.raises(error):
        run(discord.react("👀", "77", to(), FakeClient(recorder(answer))))


@pytest.mark.parametrize(
    ("context", "calls"),
    [
        ({}, [f"POST {BASE}/channels/200/typing"]),
        ({"sealed_token": "x", "interaction_id": "1"}, []),  # Discord shows that the bot is thinking
        ({"bot_is_there": False}, []),
    ],
)
def test_typing_is_shown_where_discord_shows_nothing_itself(discord, context, calls):
    platform = recorder()
    run(discord.typing(to(**context), FakeClient(platform)))
    assert platform.calls == calls


def test_a_file_is_downloaded_from_discords_hosts_alone(discord):
    platform = recorder(httpx.Response(200, content=b"bytes"))
    attachment = {"kind": "file", "url": CDN, "size": 5}
    assert run(discord.fetch(attachment, FakeClient(platform), limit_bytes=100)) == b"bytes"
    assert platform.calls == [f"GET {CDN}"]


@pytest.mark.parametrize(
    "attachment",
    [
        {"url": "https://cdn.discordapp.com.evil.example/a"},
        {"url": "https://evil.example/cdn.discordapp.com"},
        {"url": "http://cdn.discordapp.com/a"},
        {"url": "https://cdn.discordapp.com@evil.example/a"},
        {"url": 7},
        {},
    ],
)
def test_another_host_is_never_asked(discord, attachment):
    platform = recorder()
    with pytest.raises(NotFetched):
        run(discord.fetch(attachment, FakeClient(platform), limit_bytes=100))
    assert platform.calls == []


@pytest.mark.parametrize(
    ("answer", "size"),
    [(httpx.Response(200, content=b"x" * 6), 5), (httpx.Response(404), None), (httpx.Response(302), 5)],
)
def test_a_file_that_is_longer_than_promised_expired_or_moved_is_not_fetched(discord, answer, size):
    with pytest.raises(NotFetched):
        run(discord.fetch({"url": CDN, "size": size}, FakeClient(recorder(answer)), limit_bytes=100))


@pytest.mark.parametrize(
    ("found", "is_ours", "error"),
    [
        ({"id": "1290000000000000001", "interactions_endpoint_url": "https://x/webhooks/discord"}, None, None),
        ({"id": "1290000000000000001", "interactions_endpoint_url": None}, False, None),
        ({"id": "42", "interactions_endpoint_url": "https://x/"}, False, "DISCORD_APPLICATION_ID"),
    ],
)
def test_what_is_registered_tells_a_wrong_application_and_a_missing_address(discord, found, is_ours, error):
    platform = recorder(httpx.Response(200, json=found))
    seen = run(discord.registration(FakeClient(platform)))
    assert platform.calls == [f"GET {BASE}/applications/@me"]
    assert (seen.is_ours, seen.url) == (is_ours, found["interactions_endpoint_url"])
    assert (seen.last_error is None) if error is None else error in seen.last_error


def test_webhook_events_that_discord_switched_off_are_missing_and_interactions_still_come(discord):
    found = {"id": "1290000000000000001", "interactions_endpoint_url": "https://x/", "event_webhooks_status": 3}
    seen = run(discord.registration(FakeClient(recorder(httpx.Response(200, json=found)))))
    assert (seen.is_ours, seen.last_error) == (None, None)
    assert seen.missing == ("webhook events, which Discord has switched off",)


@pytest.mark.parametrize(
    ("answer", "age_ms", "error"),
    [
        (httpx.Response(204), 0, None),
        (refusal(404, 10008), 60_000, None),
        (refusal(404, 10015), 60_000, None),
        (refusal(404, 10015), 100, RetryableError),  # Discord may not know our first answer yet
        (refusal(500, 0), 60_000, RetryableError),
        (NoAnswer("gone"), 60_000, RetryableError),
        (refusal(403, 50001), 60_000, PermanentError),
    ],
)
def test_the_mark_of_a_command_is_taken_away(discord, answer, age_ms, error):
    platform = recorder(answer)
    asked = Outgoing(1, 0, "200", None, None, {"sealed_token": discord.seal("t")}, NOW - age_ms, is_first=True)
    work = discord.end_wait(asked, FakeClient(platform), now_ms=NOW)
    if error is None:
        run(work)
    else:
        with pytest.raises(error):
            run(work)
    assert platform.calls == [f"DELETE {BASE}/webhooks/1290000000000000001/t/messages/@original"]


def test_the_mark_of_an_old_command_is_gone_by_itself(discord):
    platform = recorder()
    asked = Outgoing(1, 0, "200", None, None, {"sealed_token": discord.seal("t")}, NOW - 900_000, is_first=True)
    run(discord.end_wait(asked, FakeClient(platform), now_ms=NOW))
    assert platform.calls == []


@pytest.mark.parametrize(
    ("registered", "is_ours"),
    [("https://bot.example.com/webhooks/discord", True), ("https://other.example/x", False), (None, False)],
)
def test_another_programs_address_is_seen_where_ours_is_known(monkeypatch, registered, is_ours):
    monkeypatch.setenv("DISCORD_WEBHOOK_URL", "https://bot.example.com/webhooks/discord")
    found = {"id": "1290000000000000001", "interactions_endpoint_url": registered}
    adapter = DiscordChannel(DiscordSettings.load())
    assert run(adapter.registration(FakeClient(recorder(httpx.Response(200, json=found))))).is_ours is is_ours


def test_the_message_that_a_thread_was_made_from_is_reacted_to_in_its_channel(discord):
    platform = recorder()
    there = Outgoing(1, 0, "200", "77", None, {}, NOW, is_first=True)
    for message in ("77", "78"):
        run(discord.react("x", message, there, FakeClient(platform)))
    assert [call.partition("/reactions")[0] for call in platform.calls] == [
        f"PUT {BASE}/channels/200/messages/77",
        f"PUT {BASE}/channels/77/messages/78",
    ]
