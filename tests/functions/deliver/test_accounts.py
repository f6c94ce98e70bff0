"""Each account sends with its own token, also one of a bot that a person makes on Telegram."""

import asyncio
import json

import httpx

from functions.deliver import Deliver
from shared.channels import account_secrets, registry
from shared.conversation.routing.commands import MENU
from shared.core.settings import Settings
from shared.db.engine.connection import transaction
from shared.db.roster import accounts
from shared.roster import account_tokens
from tests.fake_client import FakeClient
from tests.functions.deliver.sending import Platform, service_of, step, worked
from tests.support import answer, column, dump

TOKEN = "7100200300:AAExample"


def test_a_channel_without_settings_waits_and_blocks_no_other(conn, monkeypatch):
    monkeypatch.delenv("DISCORD_PUBLIC_KEY")
    answer(conn, channel="discord")
    answer(conn)
    step(Platform())
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["pending", "acked"]


def test_each_account_sends_with_a_token_of_its_own_and_one_that_comes_later_is_served_without_a_restart(
    conn, db, monkeypatch
):
    answer(conn, "of the first", chat="5000000001")
    answer(conn, "of sales", chat="5000000001", channel="telegram.sales")
    platform = Platform()

    async def go():
        service = service_of(platform)
        await worked(service)
        before = list(platform.texts)
        with transaction(conn):
            accounts.add(conn, "telegram.sales", now_ms=1)
        await worked(service)  # its tokens are missing
        account_tokens.put(
            service.settings.account_tokens, "telegram.sales", {"bot_token": "7100200301:BB", "webhook_secret": "s"}
        )
        await worked(service)
        await service.close()
        return before

    assert asyncio.run(go()) == ["of the first"]
    assert [(path, body["text"]) for _, path, body in platform.requests] == [
        (f"/bot{TOKEN}/sendMessage", "of the first"),
        ("/bot7100200301:BB/sendMessage", "of sales"),
    ]
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["acked", "acked"]


def managed(hook="https://bot.example.com/webhooks/telegram"):
    """Telegram, for a bot that manages another one."""
    results = {
        "getManagedBotToken": "777:CCC",
        "getWebhookInfo": {"url": hook},
        "getMe": {"id": 777, "username": "clerk_bot"},
        "setWebhook": True,
        "getMyCommands": [],
        "setMyCommands": True,
    }

    def answer_of(request):
        method = request.url.path.rpartition("/")[2]
        return httpx.Response(200, json={"ok": True, "result": results.get(method, {"message_id": 1})})

    return answer_of


def test_a_bot_that_a_person_made_gets_its_token_and_its_webhook_and_then_sends(conn):
    """One tap: the token goes into the file, the webhook is beside the manager's, and no row has the token."""
    with transaction(conn):
        accounts.want(conn, "telegram.clerk", agent="assistant", manager="telegram", owner_id="5", now_ms=1)
        accounts.give(conn, "telegram", "5", bot_id="777", username="clerk_bot", now_ms=1)
    answer(conn, "hello", chat="5", channel="telegram.clerk")
    calls, platform = [], managed()

    def record(request):
        calls.append((request.url.path, json.loads(request.content)))
        return platform(request)

    async def go():
        service = Deliver(Settings.load(), FakeClient(record))
        await worked(service)
        await worked(service)
        await service.close()
        return service.settings.account_tokens

    path = asyncio.run(go())
    tokens = account_secrets.read(path)["telegram.clerk"]
    assert [path for path, _ in calls] == [
        *(f"/bot{TOKEN}/getManagedBotToken", f"/bot{TOKEN}/getWebhookInfo", "/bot777:CCC/getMe"),
        *("/bot777:CCC/setWebhook", "/bot777:CCC/getMyCommands", "/bot777:CCC/setMyCommands"),
        "/bot777:CCC/sendMessage",
    ]
    assert {each["command"]: each["description"] for each in calls[5][1]["commands"]} == MENU
    hook = calls[3][1]
    assert hook["url"] == "https://bot.example.com/webhooks/telegram.clerk"
    assert hook["secret_token"] == tokens["webhook_secret"]
    assert (tokens["bot_token"], tokens["bot_username"]) == ("777:CCC", "clerk_bot")
    assert accounts.known(conn, "telegram.clerk").status == "active"
    registry.get.cache_clear()
    assert registry.get("telegram.clerk").webhook_url == hook["url"]  # so that the watch knows its own address
    assert "CCC" not in json.dumps(dump(conn), default=str)
    path.unlink()  # the machine was lost, and the database restored: the file is in no replica
    registry.get.cache_clear()
    before = len(calls)
    assert "telegram.clerk" in account_secrets.read(asyncio.run(go()))
    assert [path.rpartition("/")[2] for path, _ in calls[before:]] == [
        *("getManagedBotToken", "getWebhookInfo", "getMe", "setWebhook", "getMyCommands", "setMyCommands")
    ]


def test_the_webhook_of_a_new_bot_is_beside_our_own_even_while_another_program_has_ours(conn, monkeypatch):
    monkeypatch.setenv("TELEGRAM_WEBHOOK_URL", "https://bot.example.com/webhooks/telegram")
    with transaction(conn):
        accounts.want(conn, "telegram.clerk", agent="assistant", manager="telegram", owner_id="5", now_ms=1)
        accounts.give(conn, "telegram", "5", bot_id="777", username="clerk_bot", now_ms=1)

    async def go():
        service = Deliver(Settings.load(), FakeClient(managed(hook="https://other.example.org/webhooks/telegram")))
        await worked(service)
        await service.close()
        return service.settings.account_tokens

    tokens = account_secrets.read(asyncio.run(go()))["telegram.clerk"]
    assert tokens["webhook_url"] == "https://bot.example.com/webhooks/telegram.clerk"


def test_a_bot_whose_manager_has_no_webhook_waits_with_its_reason(conn):
    with transaction(conn):
        accounts.want(conn, "telegram.clerk", agent="assistant", manager="telegram", owner_id="5", now_ms=1)
        accounts.give(conn, "telegram", "5", bot_id="777", username=None, now_ms=1)
    platform = managed(hook="")

    async def go():
        service = Deliver(Settings.load(), FakeClient(platform))
        await worked(service)
        await service.close()

    asyncio.run(go())
    found = accounts.known(conn, "telegram.clerk")
    assert (found.status, found.attempts) == ("given", 1)
    assert "webhook" in found.failure
    assert found.retry_at > 1


def test_a_person_is_asked_for_a_bot_with_telegrams_own_button(conn):
    answer(conn, "one tap", chat="5", content={"bot_request": [7, "Clerk", "clerk_ab12_bot"]})
    ((_, _, body),) = step(Platform()).requests
    ((key,),) = body["reply_markup"]["keyboard"]
    assert key["request_managed_bot"] == {
        "request_id": 7,
        "suggested_name": "Clerk",
        "suggested_username": "clerk_ab12_bot",
    }
