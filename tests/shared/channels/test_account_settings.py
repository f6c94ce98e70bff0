"""The settings of further accounts, and the file of tokens that some of them are in."""

import json

import pytest

from shared.channels import account_settings, registry
from shared.channels.account_settings import stated
from shared.channels.telegram.channel import TelegramSettings
from shared.core.errors import ConfigInvalid
from shared.core.text.redaction import redact

TOKEN = "7100200301:AASecondSecondSecondSecondSecondSecond1"


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    """Where the file of tokens is."""
    monkeypatch.setenv("POSTROOM_DB", str(tmp_path / "p.db"))
    return tmp_path / "p.db.tokens"


def test_a_further_account_has_variables_of_its_own_and_its_platforms_address(monkeypatch, tokens):
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    found = TelegramSettings.of("telegram.sales")
    assert found.bot_token.get_secret_value() == TOKEN
    assert found.api_base == "http://127.0.0.1:1"  # the first account's
    assert found.bot_username == ""  # not the first account's
    monkeypatch.setenv("TELEGRAM_SALES_API_BASE", "http://127.0.0.1:2")
    assert TelegramSettings.of("telegram.sales").api_base == "http://127.0.0.1:2"


def test_each_account_has_an_adapter_of_its_own(monkeypatch, tokens):
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    first, sales = registry.get("telegram"), registry.get("telegram.sales")
    assert (first.name, first.platform) == ("telegram", "telegram")
    assert (sales.name, sales.platform) == ("telegram.sales", "telegram")
    assert registry.traits("telegram.sales") == registry.traits("telegram")
    assert registry.is_adapted("discord.sales")
    assert not registry.is_adapted("telegram-sales")


def test_a_missing_setting_is_named_with_the_accounts_prefix_and_never_the_first_ones_value(tokens):
    with pytest.raises(ConfigInvalid) as error:
        registry.get("telegram.sales")
    assert "TELEGRAM_SALES_BOT_TOKEN" in str(error.value)
    assert "TELEGRAM_SALES_WEBHOOK_SECRET" in str(error.value)
    assert "AAExample" not in str(error.value)


def test_the_file_of_tokens_gives_what_no_variable_gives(monkeypatch, tokens):
    of_the_file = {"bot_token": TOKEN, "webhook_secret": "from-the-file", "api_base": "http://127.0.0.1:3"}
    tokens.write_text(json.dumps({"telegram.sales": of_the_file}))
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "from-the-variable")
    found = TelegramSettings.of("telegram.sales")
    assert found.bot_token.get_secret_value() == TOKEN
    assert found.webhook_secret.get_secret_value() == "from-the-variable"
    assert found.api_base == "http://127.0.0.1:3"
    assert TOKEN not in redact(f"the token is {TOKEN}")


@pytest.mark.parametrize("text", ["{", "[]", '{"telegram.sales": 1}'])
def test_an_unreadable_file_of_tokens_is_named_without_its_content(tokens, text):
    tokens.write_text(text)
    with pytest.raises(ConfigInvalid, match=r"p\.db\.tokens"):
        account_settings.kept("telegram.sales")


def test_a_file_that_is_not_there_has_no_tokens(tokens):
    assert account_settings.kept("telegram.sales") == {}


def test_which_bot_it_is_stands_in_a_variable_or_in_the_file(monkeypatch, tokens):
    assert stated("telegram.sales", "BOT_USERNAME") is None
    tokens.write_text(json.dumps({"telegram.sales": {"bot_username": "sales_bot"}}))
    assert stated("telegram.sales", "BOT_USERNAME") == "sales_bot"
    monkeypatch.setenv("TELEGRAM_SALES_BOT_USERNAME", "other_bot")
    assert stated("telegram.sales", "BOT_USERNAME") == "other_bot"
    assert stated("telegram.sales", None) is None


def test_a_file_that_can_not_be_read_hides_only_the_name(tokens):
    tokens.write_text("{")
    assert stated("telegram.sales", "BOT_USERNAME") is None
