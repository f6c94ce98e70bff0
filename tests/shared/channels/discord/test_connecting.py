"""The address to which Discord sends an application's interactions."""

import asyncio
import json

import httpx
import pytest

from shared.channels.discord import connecting
from shared.core.errors import ConfigInvalid, PermanentError, WrongState
from tests.fake_client import FakeClient
from tests.shared.channels.discord.sending import BASE

APP = "1290000000000000001"
OURS = "https://bot.example.com/webhooks/discord"


class Developer:
    """An application with an address, which takes another one, or refuses it."""

    def __init__(self, url, *, refuses=False, application=APP):
        self.facts = {"id": application, "interactions_endpoint_url": url, "event_webhooks_status": 1}
        self.refuses = refuses
        self.changes = []

    def __call__(self, request):
        assert str(request.url) == f"{BASE}/applications/@me"
        if request.method == "PATCH":
            self.changes.append(json.loads(request.content))
            if self.refuses:
                return httpx.Response(400, json={"code": 50035, "message": "Invalid Form Body"})
            self.facts |= self.changes[-1]
        return httpx.Response(200, json=self.facts)


def connect(discord, developer, *, take_over=False):
    client = FakeClient(developer)
    return asyncio.run(connecting.connect(discord.api, client, url=OURS, take_over=take_over))


@pytest.mark.parametrize(
    ("before", "changes"), [(None, [{"interactions_endpoint_url": OURS}]), (OURS, [])], ids=["none", "ours already"]
)
def test_an_application_without_an_address_gets_ours_once(discord, before, changes):
    developer = Developer(before)
    assert connect(discord, developer).url == before
    assert developer.changes == changes


def test_another_programs_application_is_taken_over_only_when_asked(discord):
    developer = Developer("https://other.example/x")
    with pytest.raises(WrongState, match=r"https://other\.example/x"):
        connect(discord, developer)
    assert developer.changes == []
    assert connect(discord, developer, take_over=True).url == "https://other.example/x"
    assert developer.facts["interactions_endpoint_url"] == OURS


def test_an_address_that_discord_refuses_says_what_discord_called(discord):
    with pytest.raises(PermanentError, match=r"PING and with a wrong signature.*DISCORD_PUBLIC_KEY"):
        connect(discord, Developer(None, refuses=True))


def test_a_token_of_another_application_changes_nothing(discord):
    developer = Developer(None, application="5")
    with pytest.raises(ConfigInvalid, match="DISCORD_APPLICATION_ID"):
        connect(discord, developer)
    assert developer.changes == []


def test_an_address_gets_the_path_of_our_webhook_and_is_https():
    assert connecting.address_of("https://bot.example.com", "discord.games") == (
        "https://bot.example.com/webhooks/discord.games"
    )
    assert connecting.address_of("https://bot.example.com/d", "discord") == "https://bot.example.com/d"
    emulated = connecting.address_of("http://127.0.0.1:8080", "discord")
    assert emulated == "http://127.0.0.1:8080/webhooks/discord"
    for wrong in ("http://bot.example.com", "bot.example.com", "https://a:b@c/", "https://bot.example.com/?x=1"):
        with pytest.raises(ConfigInvalid):
            connecting.address_of(wrong, "discord")
