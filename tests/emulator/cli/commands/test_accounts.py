"""``emulator accounts``: the bots and apps of the platforms, against the API of a Postroom elsewhere."""

import json

from tests.emulator.cli.commands.conftest import Postroom

USAGE, DOES_NOT_EXIST = 64, 66


def test_an_account_is_added_shown_given_to_an_agent_and_removed(postroom: Postroom) -> None:
    made = postroom.run("accounts", "add", "telegram", "sales").stdout
    assert "Account telegram.sales is added. Its webhook is /webhooks/telegram.sales at your address." in made
    assert "Set TELEGRAM_SALES_BOT_TOKEN and TELEGRAM_SALES_WEBHOOK_SECRET for ingest" in made
    shown = postroom.run("accounts", "show", "telegram.sales").stdout
    assert "TELEGRAM_SALES_BOT_TOKEN, TELEGRAM_SALES_WEBHOOK_SECRET" in shown
    assert postroom.run("accounts", "set", "telegram.sales", "--agent", "assistant").stdout == (
        "Account telegram.sales is the bot of assistant.\n"
    )
    found = {each["name"]: each["agent"] for each in postroom.json("accounts", "list")}
    assert found["telegram.sales"] == "assistant"
    assert {"discord", "telegram"} <= found.keys()
    assert "all agents" in postroom.run("accounts", "set", "telegram.sales", "--all-agents").stdout
    assert "answers 404" in postroom.run("accounts", "remove", "telegram.sales").stdout
    assert "telegram.sales" not in {each["name"] for each in postroom.json("accounts", "list")}


def test_the_bot_of_an_account_is_known_from_its_settings(postroom: Postroom) -> None:
    """No row has them, because the operator gives them in the environment or in the file of tokens."""
    postroom.run("accounts", "add", "telegram", "sales")
    tokens = postroom.db.with_name(f"{postroom.db.name}.tokens")
    tokens.write_text(json.dumps({"telegram.sales": {"bot_token": "7:x", "bot_username": "@sales_bot"}}))
    found = {each["name"]: each for each in postroom.json("accounts", "list")}
    assert found["telegram.sales"]["username"] == "sales_bot"
    assert "@sales_bot" in postroom.run("accounts", "list").stdout
    postroom.run("accounts", "remove", "telegram.sales")


def test_what_can_not_be_done_is_said_in_words(postroom: Postroom) -> None:
    assert "first account" in postroom.refused("accounts", "remove", "telegram", code=1)
    assert "`" in postroom.refused("accounts", "show", "telegram.gone", code=DOES_NOT_EXIST)
    refused = postroom.run("accounts", "add", "pigeon", "x", code=2).stderr
    assert "no platform 'pigeon'; choose" in refused
    assert "Value error" not in refused
    assert "either --agent" in postroom.refused("accounts", "set", "telegram", code=USAGE)
