"""``emulator accounts``: the bots and apps of the platforms, against the API of a Postroom elsewhere."""

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


def test_what_can_not_be_done_is_said_in_words(postroom: Postroom) -> None:
    assert "first account" in postroom.refused("accounts", "remove", "telegram", code=1)
    assert "`" in postroom.refused("accounts", "show", "telegram.gone", code=DOES_NOT_EXIST)
    assert "either --agent" in postroom.refused("accounts", "set", "telegram", code=USAGE)
