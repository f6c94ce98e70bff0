"""Several bots of one platform, each with an address, a secret and chats of its own."""

import json

from shared.conversation.access import people
from shared.db.access import users
from shared.db.engine.connection import transaction
from shared.db.roster import accounts, chats
from shared.roster import wirings
from tests.functions.ingest.kit import post, telegram
from tests.support import NOW, column, make_agent

SALES = {"x-telegram-bot-api-secret-token": "of-sales"}


def test_each_account_has_an_address_a_secret_and_chats_of_its_own(serving, conn, monkeypatch):
    """Two bots in one chat: the same person, the same chat's id, and the same number of an update."""
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
    calls = [
        telegram(url="/webhooks/telegram"),
        telegram(url="/webhooks/telegram.sales", headers=SALES),
        telegram(url="/webhooks/telegram.sales", headers=SALES),  # a redelivery
        telegram(url="/webhooks/telegram.sales"),  # signed with the first one's secret
    ]
    assert [each.status_code for each in post(serving, *calls)] == [200, 200, 200, 401]
    assert sorted(column(conn, "SELECT channel FROM messages")) == ["telegram", "telegram.sales"]
    assert sorted(column(conn, "SELECT channel FROM chats")) == ["telegram", "telegram.sales"]


def test_a_person_whom_one_bot_knows_is_known_to_all_bots_of_the_platform(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "ask")
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
        ana = users.ensure(conn, "telegram", "5000000001", name="Ana", now_ms=NOW)
        people.grant(conn, ana.id, "owner", None, by="test", now_ms=NOW)
        chat = chats.ensure(conn, "telegram.sales", "5000000001", is_group=False, sender_policy="strict", now_ms=NOW)
        wirings.connect(conn, chat.id, "assistant", now_ms=NOW)
    (answer,) = post(serving, telegram(headers=SALES), path="/webhooks/telegram.sales")
    assert answer.status_code == 200
    assert column(conn, "SELECT channel FROM messages") == ["telegram.sales"]
    assert column(conn, "SELECT channel FROM users") == ["telegram"]


def test_two_bots_in_one_group_answer_each_for_itself(serving, conn, monkeypatch):
    """Telegram gives both bots the message; only the mentioned one takes it."""
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    monkeypatch.setenv("TELEGRAM_SALES_BOT_USERNAME", "sales_bot")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
        for channel in ("telegram", "telegram.sales"):
            group = chats.ensure(conn, channel, "-4001", is_group=True, sender_policy="public", now_ms=NOW)
            wirings.connect(conn, group.id, "assistant", {"engage_mode": "mention"}, now_ms=NOW)
    sender = {"id": 5000000001, "is_bot": False, "first_name": "Ana"}
    message = {"message_id": 7, "from": sender, "chat": {"id": -4001, "type": "group", "title": "Lunch"}, "date": NOW}
    said = {"text": "@sales_bot hello", "entities": [{"type": "mention", "offset": 0, "length": 10}]}
    body = json.dumps({"update_id": 1, "message": {**message, **said}}).encode()
    calls = [telegram(body), telegram(body, url="/webhooks/telegram.sales", headers=SALES)]
    assert [each.status_code for each in post(serving, *calls)] == [200, 200]
    assert column(conn, "SELECT channel FROM messages WHERE trigger = 1") == ["telegram.sales"]
    assert column(conn, "SELECT channel || ' ' || reason FROM dropped") == ["telegram not_addressed"]


def test_new_chats_of_an_agents_own_bot_go_to_that_agent(serving, conn, monkeypatch):
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    make_agent(conn, "clerk")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", agent="clerk", now_ms=NOW)
    calls = [telegram(), telegram(url="/webhooks/telegram.sales", headers=SALES)]
    assert [each.status_code for each in post(serving, *calls)] == [200, 200]
    found = column(conn, "SELECT channel || ' ' || agent FROM messages ORDER BY channel")
    assert found == ["telegram assistant", "telegram.sales clerk"]


def test_an_account_that_nobody_added_is_a_404_though_its_settings_are_there(serving, conn, monkeypatch):
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    (answer,) = post(serving, telegram(headers=SALES), path="/webhooks/telegram.sales")
    assert answer.status_code == 404
    assert column(conn, "SELECT count(*) FROM messages") == [0]


def test_an_account_whose_settings_are_missing_is_a_503_and_the_log_names_them(serving, conn, capfd):
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
    (answer,) = post(serving, telegram(headers=SALES), path="/webhooks/telegram.sales")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "TELEGRAM_SALES_BOT_TOKEN" not in answer.text
    assert "TELEGRAM_SALES_BOT_TOKEN" in "".join(capfd.readouterr())


def test_a_channel_without_settings_answers_503_so_that_the_platform_retries(serving, conn, monkeypatch):
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN")
    (answer,) = post(serving, telegram())
    assert answer.status_code == 503
    assert "not configured" in answer.json()["error"]
