"""The doctor about the bots and apps of the platforms."""

import pytest

from emulator.base.environment import EnvSetting, unknown
from emulator.cli.checks import accounts as checks
from shared.channels import registry
from shared.core.settings import known_variables
from shared.db.engine.connection import transaction
from shared.db.roster import accounts
from shared.roster import account_tokens
from tests.support import NOW

TOKEN, SECRET = "7100200300:AAExample", "a-secret"
SET = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_WEBHOOK_SECRET": SECRET}
SALES = {"TELEGRAM_SALES_BOT_TOKEN": "7100200301:BB", "TELEGRAM_SALES_WEBHOOK_SECRET": SECRET}


@pytest.fixture(autouse=True)
def bare(monkeypatch, db):
    for name in (*SET, *SALES, "DISCORD_PUBLIC_KEY", "DISCORD_APPLICATION_ID", "DISCORD_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POSTROOM_DB", str(db))


def add(conn, name="telegram.sales"):
    with transaction(conn):
        accounts.add(conn, name, now_ms=NOW)


def found(db, environ, *, of_emulator=False):
    """(level, sentence, mend) by account."""
    every = checks.findings(db, {"POSTROOM_DB": str(db), **environ}, of_emulator=of_emulator)
    return {each.says.split()[0].rstrip(":"): (each.level, each.says, each.mend) for each in every}


def test_a_platform_without_settings_is_not_used_and_the_page_says_how(db, conn):
    assert found(db, {}) == {
        name: ("ok", f"{name} is not set up: docs/channels/{name}.md", None) for name in registry.PLATFORMS
    }


def test_an_account_with_all_its_settings_is_well(db, conn):
    assert found(db, SET)["telegram"][:2] == ("ok", "telegram has its settings")
    add(conn)
    assert found(db, SET | SALES)["telegram.sales"][:2] == ("ok", "telegram.sales has its settings")


def test_a_missing_or_wrong_setting_is_named_and_never_its_value(db, conn):
    level, says, mend = found(db, {"TELEGRAM_BOT_TOKEN": TOKEN})["telegram"]
    assert (level, "TELEGRAM_WEBHOOK_SECRET" in says, "docs/channels/telegram.md" in mend) == ("problem", True, True)
    level, says, _ = found(db, SET | {"TELEGRAM_BOT_TOKEN": "not-a-token"})["telegram"]
    assert (level, "TELEGRAM_BOT_TOKEN" in says, "not-a-token" in says) == ("problem", True, False)
    add(conn)
    level, says, _ = found(db, SET)["telegram.sales"]
    assert (level, "TELEGRAM_SALES_BOT_TOKEN" in says) == ("problem", True)


def test_a_bot_that_postroom_was_given_has_its_settings_in_the_file(db, conn):
    add(conn)
    tokens = db.with_name(db.name + ".tokens")
    account_tokens.put(tokens, "telegram.sales", {"bot_token": "7100200301:BB", "webhook_secret": "x"})
    assert found(db, {})["telegram.sales"][1] == "telegram.sales has its settings, from the file of tokens"


def test_settings_of_an_account_that_nobody_added_are_a_warning_with_the_command(db, conn):
    level, says, mend = found(db, SET | SALES)["TELEGRAM_SALES_BOT_TOKEN"]
    assert (level, "404" in says, mend) == ("warning", True, "emulator accounts add telegram sales")


def test_a_bot_that_is_still_to_be_made_is_a_warning(db, conn):
    with transaction(conn):
        accounts.want(conn, "telegram.clerk", agent="assistant", manager="telegram", owner_id="5", now_ms=NOW)
    level, says, _ = found(db, {})["telegram.clerk"]
    assert (level, "a person was asked to make its bot" in says) == ("warning", True)


def test_the_emulator_invents_its_bots(db, conn):
    add(conn)
    ((level, says, _),) = found(db, SET, of_emulator=True).values()
    assert (level, says.endswith(", ".join([*registry.PLATFORMS, "telegram.sales"]))) == ("ok", True)


def test_variables_of_further_accounts_are_settings_and_mistyped_ones_are_not():
    registry.import_all()
    lines = [EnvSetting(name, "x", ".env:1") for name in (*SALES, "TELEGRAM_SALES_BOT_TOKN")]
    (sentence,) = unknown(lines, known_variables())
    assert "TELEGRAM_SALES_BOT_TOKN" in sentence
