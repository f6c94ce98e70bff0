"""Accounts over the API."""

import pytest

from shared.channels import account_secrets, registry
from shared.core.settings import Settings
from shared.roster import account_tokens
from tests.api_client import ask, get, made, post
from tests.support import answer, column, make_agent


def named(serving):
    return {each["name"]: each for each in get(serving, "/api/accounts").json()}


def add(serving, **fields):
    return made(post(serving, {"platform": "telegram", "name": "sales", **fields}, "/api/accounts"))["account"]


def test_the_first_account_of_each_platform_is_there_without_being_added(serving, conn):
    found = named(serving)
    assert sorted(found) == sorted(registry.PLATFORMS)
    assert found["telegram"]["variables"] == ["TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET"]
    assert found["telegram"]["address"] == "/webhooks/telegram"


def test_an_account_is_added_and_its_answer_names_what_to_set(serving, conn):
    made = add(serving)
    assert (made["name"], made["status"], made["agent"]) == ("telegram.sales", "active", None)
    assert made["address"] == "/webhooks/telegram.sales"
    assert made["variables"] == ["TELEGRAM_SALES_BOT_TOKEN", "TELEGRAM_SALES_WEBHOOK_SECRET"]
    assert get(serving, "/api/accounts/telegram.sales").json() == made
    again = post(serving, {"platform": "telegram", "name": "sales"}, "/api/accounts")
    assert again.status_code == 409


def test_an_account_becomes_an_agents_own_and_everybodys_again(serving, conn):
    make_agent(conn, "clerk")
    assert add(serving, agent="clerk")["agent"] == "clerk"
    for agent in (None, "assistant"):
        reply = ask(serving, "PATCH", "/api/accounts/telegram.sales", {"agent": agent})
        assert reply.json()["account"]["agent"] == agent
    assert ask(serving, "PATCH", "/api/accounts/discord", {"agent": "clerk"}).status_code == 200
    assert named(serving)["discord"]["agent"] == "clerk"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/api/accounts", {"platform": "pigeon", "name": "loft"}, 400, ", ".join(sorted(registry.PLATFORMS))),
        ("POST", "/api/accounts", {"platform": "telegram", "name": "Sa les"}, 400, "can't name an account"),
        ("POST", "/api/accounts", {"platform": "telegram", "name": "telegram"}, 400, "first account"),
        ("POST", "/api/accounts", {"platform": "telegram", "name": "sales", "agent": "no"}, 404, "no agent"),
        ("POST", "/api/accounts", {"platform": "telegram", "name": "sales", "bot_token": "1:a"}, 400, "bot_token"),
        ("PATCH", "/api/accounts/telegram.gone", {"agent": None}, 404, "no account"),
        ("GET", "/api/accounts/telegram.gone", None, 404, "no account"),
        ("DELETE", "/api/accounts/telegram.gone", None, 404, "no account"),
        ("DELETE", "/api/accounts/telegram", None, 409, "first account"),
    ],
)
def test_what_can_not_be_done_is_refused_in_words(serving, conn, method, path, body, status, words):
    reply = ask(serving, method, path, body)
    assert (reply.status_code, words in reply.json()["error"]) == (status, True), reply.text


def test_a_removed_account_takes_its_tokens_along_and_leaves_its_chats(serving, conn):
    add(serving)
    answer(conn, "still to be sent", channel="telegram.sales")
    tokens = Settings.load().account_tokens
    account_tokens.put(tokens, "telegram.sales", {"bot_token": "1:a"})
    refused = ask(serving, "DELETE", "/api/accounts/telegram.sales")
    assert (refused.status_code, "1 responses" in refused.json()["error"]) == (409, True)
    assert "telegram.sales" in account_secrets.read(tokens)
    assert ask(serving, "DELETE", "/api/accounts/telegram.sales?force=true").status_code == 200
    assert account_secrets.read(tokens) == {}
    assert sorted(named(serving)) == sorted(registry.PLATFORMS)
    assert column(conn, "SELECT channel FROM chats") == ["telegram.sales"]


def test_a_chat_of_a_further_account_can_be_added_and_no_client_can_take_an_accounts_name(serving, conn):
    chat = {"channel": "telegram.sales", "platformId": "5"}
    assert post(serving, chat, "/api/chats").status_code == 200
    message = {"message": "hi", "channel": "telegram.sales", "senderId": "5000000001"}
    assert post(serving, message, "/api/message").status_code == 400
