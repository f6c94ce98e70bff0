"""``connect``: what is registered at a function that plays Telegram, and what stays untouched."""

import asyncio
import json

import httpx
import pytest

from shared.channels.telegram import connecting, webhooks
from shared.core.errors import ConfigInvalid, PermanentError, TokenRefused, WrongState
from tests.fake_client import FakeClient

URL = "https://bot.example.org/webhooks/telegram"
OTHER = "https://other.example.org/hook"
MENU = {"clear": "Start afresh", "stop": "Stop"}
ME = {"id": 7100200300, "is_bot": True, "first_name": "Aurora", "username": "aurora_helper_bot"}


class Telegram:
    """A bot's registration and commands, as Telegram keeps them."""

    def __init__(self, url="", commands=(), allowed=None, me=ME):
        self.webhook = {"url": url, "pending_update_count": 3, "has_custom_certificate": False}
        self.webhook |= {} if allowed is None else {"allowed_updates": allowed}
        self.commands = [{"command": name, "description": words} for name, words in dict(commands).items()]
        self.me = me
        self.calls = []

    def __call__(self, request):
        method, body = request.url.path.rpartition("/")[2], json.loads(request.content)
        self.calls.append((method, body))
        return httpx.Response(200, json={"ok": True, "result": getattr(self, method)(body)})

    def getMe(self, _):
        return self.me

    def getWebhookInfo(self, _):
        return self.webhook

    def getMyCommands(self, _):
        return self.commands

    def setWebhook(self, body):
        self.webhook = {"url": body["url"], "pending_update_count": 0, "allowed_updates": body["allowed_updates"]}
        return True

    def setMyCommands(self, body):
        self.commands = body["commands"]
        return True

    @property
    def changes(self):
        return [method for method, _ in self.calls if method.startswith("set")]


def connect(adapter, platform, *, take_over=False, url=URL):
    return asyncio.run(connecting.connect(adapter, FakeClient(platform), url=url, take_over=take_over, menu=MENU))


def test_a_new_bot_gets_every_parameter_and_the_commands(telegram):
    platform = Telegram()
    done = connect(telegram, platform)
    assert dict(platform.calls)["setWebhook"] == {
        "url": URL,
        "secret_token": "a-Secret_that-telegram-repeats",
        "allowed_updates": list(webhooks.UPDATES),
        "max_connections": 40,
        "drop_pending_updates": False,
    }
    assert {each["command"]: each["description"] for each in platform.commands} == MENU
    assert (done.before.registration.url, done.registration.url, done.registration.is_ours) == (None, URL, True)
    assert (done.new_commands, done.before.bot.username) == (("clear", "stop"), "aurora_helper_bot")


def test_a_repetition_passes_everything_again_and_leaves_the_commands(telegram):
    """Telegram forgets what a call of setWebhook does not name."""
    platform = Telegram(URL, MENU, list(webhooks.UPDATES))
    done = connect(telegram, platform)
    assert platform.changes == ["setWebhook"]
    assert set(dict(platform.calls)["setWebhook"]) >= {"secret_token", "allowed_updates", "max_connections"}
    assert done.new_commands == ()


@pytest.mark.parametrize(
    ("registered", "new"),
    [({}, ("clear", "stop")), ({"clear": "Other words", "stop": "Stop"}, ("clear",)), ({**MENU, "tip": "A tip"}, ())],
)
def test_only_commands_that_changed_are_registered_and_others_stay(telegram, registered, new):
    platform = Telegram(URL, registered, list(webhooks.UPDATES))
    assert connect(telegram, platform).new_commands == new
    assert {each["command"]: each["description"] for each in platform.commands} == {**registered, **MENU}


def test_a_bot_of_another_program_is_left_alone(telegram):
    platform = Telegram(OTHER)
    with pytest.raises(WrongState, match=rf"@aurora_helper_bot is connected elsewhere.*{OTHER}.*Nothing was changed"):
        connect(telegram, platform)
    assert platform.changes == []


def test_a_bot_of_another_program_is_taken_when_asked_for(telegram):
    platform = Telegram(OTHER)
    done = connect(telegram, platform, take_over=True)
    assert connecting.is_elsewhere(done.before.registration)
    assert (platform.webhook["url"], done.registration.is_ours) == (URL, True)


def test_a_look_changes_nothing(telegram):
    platform = Telegram(OTHER)
    found = asyncio.run(connecting.look(telegram, FakeClient(platform), url=URL))
    assert (found.registration.is_ours, found.registration.backlog, platform.changes) == (False, 3, [])


@pytest.mark.parametrize("me", [[], {"id": "x"}, None])
def test_a_server_that_is_not_telegram_gets_no_secret(telegram, me):
    platform = Telegram(me=me)
    with pytest.raises(PermanentError, match="getMe"):
        connect(telegram, platform)
    assert platform.changes == []


def test_a_refused_token_is_told(telegram):
    refusing = FakeClient(lambda _: httpx.Response(401, json={"ok": False, "description": "Unauthorized"}))
    with pytest.raises(TokenRefused, match="TELEGRAM_BOT_TOKEN"):
        asyncio.run(connecting.connect(telegram, refusing, url=URL, take_over=False, menu=MENU))


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://bot.example.org", "https://bot.example.org/webhooks/telegram.sales"),
        (" https://bot.example.org:8443/ ", "https://bot.example.org:8443/webhooks/telegram.sales"),
        ("https://bot.example.org/hooks/7", "https://bot.example.org/hooks/7"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/webhooks/telegram.sales"),
    ],
)
def test_an_address_gets_the_path_of_its_account(given, address):
    assert connecting.address_of(given, "telegram.sales") == address


@pytest.mark.parametrize(
    "given",
    [
        "bot.example.org",
        "ftp://bot.example.org",
        "https://",
        "https://a:b@bot.example.org",
        "https://bot.example.org/?x=1",
        "https://bot.example.org:8080",
        "https://[x",
    ],
)
def test_an_address_that_telegram_would_refuse_is_refused_before(given):
    with pytest.raises(ConfigInvalid):
        connecting.address_of(given, "telegram")
