"""The relay as a command: what it needs, and what it says without it."""

import os

import pytest

from infra.discord_relay.__main__ import CONTENT, INTENTS, main, plan
from shared.core.errors import ConfigInvalid

ENVIRONMENT = {
    "DISCORD_PUBLIC_KEY": "f7" * 32,
    "DISCORD_APPLICATION_ID": "1290000000000000001",
    "DISCORD_BOT_TOKEN": "the.token",
    "DISCORD_RELAY_SECRET": "whsec_eGW35rnSQddE0zDuw7Og/k+dNq912WKR",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in [each for each in os.environ if each.startswith("DISCORD_")]:
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("name", ["DISCORD_RELAY_SECRET", "DISCORD_BOT_TOKEN"])
def test_a_missing_setting_is_named_and_the_exit_code_says_that_a_restart_mends_nothing(monkeypatch, capsys, name):
    monkeypatch.delenv(name)
    assert main([]) == os.EX_CONFIG
    assert name in capsys.readouterr().err


def test_a_further_account_has_a_bot_of_its_own():
    with pytest.raises(ConfigInvalid, match="DISCORD_SALES_BOT_TOKEN"):
        plan("discord.sales")


def test_the_content_of_all_messages_is_asked_for_only_where_it_is_wanted(monkeypatch):
    assert plan("discord").options.intents == INTENTS
    monkeypatch.setenv("DISCORD_RELAY_CONTENT", "1")
    assert plan("discord").options.intents == INTENTS | CONTENT
    assert plan("discord").target == "http://127.0.0.1:9001/webhooks/discord"
