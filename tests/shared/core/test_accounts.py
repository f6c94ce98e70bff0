import pytest

from shared.core import accounts
from shared.core.errors import ConfigInvalid


@pytest.mark.parametrize(
    ("name", "platform", "prefix", "is_further"),
    [
        ("telegram", "telegram", "TELEGRAM_", False),
        ("telegram.sales", "telegram", "TELEGRAM_SALES_", True),
        ("discord.night_shift", "discord", "DISCORD_NIGHT_SHIFT_", True),
        ("api", "api", "API_", False),
        ("telegram-clone", "telegram-clone", "TELEGRAM-CLONE_", False),  # a client over REST: no account of ours
    ],
)
def test_a_name_tells_the_platform_and_the_variables(name, platform, prefix, is_further):
    assert accounts.platform_of(name) == platform
    assert accounts.prefix_of(name) == prefix
    assert accounts.is_further(name) is is_further


def test_a_sentence_about_settings_names_those_of_the_account():
    sentence = "check TELEGRAM_BOT_TOKEN and TELEGRAM_API_BASE"
    assert accounts.with_its_variables("telegram", sentence) == sentence
    assert accounts.with_its_variables("telegram.sales", sentence) == (
        "check TELEGRAM_SALES_BOT_TOKEN and TELEGRAM_SALES_API_BASE"
    )


@pytest.mark.parametrize("word", ["", "telegram"])
def test_without_a_word_of_its_own_it_is_the_first_account(word):
    assert accounts.name_of("telegram", word) == "telegram"


@pytest.mark.parametrize("word", ["sales", "telegram.sales"])
def test_the_whole_name_names_the_same_account_as_its_word(word):
    assert accounts.name_of("telegram", word) == "telegram.sales"


@pytest.mark.parametrize("word", ["Sales", "a.b", "a-b", "1a", "../x", "a" * 24, "é", "a b", "discord.x"])
def test_a_word_that_no_variable_and_no_address_can_have_is_refused(word):
    with pytest.raises(ConfigInvalid, match="can't name an account"):
        accounts.name_of("telegram", word)
