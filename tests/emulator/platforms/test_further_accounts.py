"""Further accounts on the fakes: each has a bot, chats and a webhook of its own."""

import json
import stat

import aiohttp
import pytest

from emulator.base.fakes import PLATFORMS
from emulator.platforms import further_accounts
from tests.emulator.platforms.conftest import ANA, DISCORD_ANA, DISCORD_CHANNEL

SALES = "telegram.sales"


async def put(world, name):
    """Add the account; status and answer."""
    async with world.session.put(f"{world.platforms.url}/control/accounts/{name}") as response:
        return response.status, await response.json()


async def get(world, path):
    async with world.session.get(world.platforms.url + path) as response:
        return response.status, await response.json()


def test_each_address_that_is_registered_is_told(play):
    told = []

    async def scenario(world):
        await world.restart(registered=lambda *address: told.append(address))
        await world.platforms.register()
        assert (await put(world, SALES))[0] == 201

    play(scenario)
    assert [name for name, _ in told] == [*PLATFORMS, SALES]
    assert all(url.rpartition("/")[2] == name for name, url in told)


def test_a_second_bot_has_chats_and_tokens_of_its_own(play, tmp_path):
    tokens = tmp_path / "p.db.tokens"

    async def scenario(world):
        await world.restart(account_tokens=tokens)
        assert (await put(world, SALES))[0] == 201
        kept = json.loads(tokens.read_text())[SALES]
        assert kept["bot_token"] != world.env["TELEGRAM_BOT_TOKEN"]
        async with world.session.post(f"{kept['api_base']}/bot{kept['bot_token']}/getMe") as response:
            me = (await response.json())["result"]
        first = (await world.bot("getMe"))["result"]
        assert (me["first_name"], me["username"]) == ("Sales", "sales_bot")
        assert (first["first_name"], first["username"]) == ("Postroom", "postroom_bot")
        assert me["id"] != first["id"]
        send = f"{kept['api_base']}/bot{kept['bot_token']}/sendMessage"
        await world.do(f"/accounts/{SALES}/control/telegram/users/{ANA}/message", {"text": "hello sales"})
        async with world.session.post(send, json={"chat_id": int(ANA), "text": "hello Ana"}) as response:
            assert response.status == 200
        _, mine = await get(world, f"/accounts/{SALES}/chat/telegram/chats/{ANA}")
        _, others = await get(world, f"/chat/telegram/chats/{ANA}")
        assert [each["text"] for each in mine["messages"]] == ["hello sales", "hello Ana"]
        assert others["messages"] == []
        shared = f"{world.env['TELEGRAM_API_BASE']}/bot{kept['bot_token']}/getMe"
        async with world.session.post(shared) as response:
            assert (await response.json())["result"]["id"] == me["id"]

    play(scenario)
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600


def test_its_updates_go_to_the_webhook_of_its_account(play):
    async def scenario(world):
        await put(world, SALES)
        _, hook = await get(world, f"/accounts/{SALES}/control/telegram/webhook")
        assert hook["url"].endswith(f"/{SALES}")

    play(scenario)


def test_its_commands_are_registered_with_its_webhook(play):
    """An account that is added while the emulator runs once had none until the next start."""

    async def scenario(world):
        await put(world, SALES)
        await put(world, "discord.sales")
        _, chats = await get(world, f"/accounts/{SALES}/chat/telegram/chats/{ANA}")
        _, channel = await get(world, f"/accounts/discord.sales/chat/discord/chats/{DISCORD_CHANNEL}")
        assert [each["command"] for each in chats["commands"]] == ["stop", "clear", "forget", "why"]
        assert [each["name"] for each in channel["commands"]][:2] == ["ask", "stop"]

    play(scenario)


def test_it_is_still_there_after_a_restart_and_gone_after_its_removal(play):
    async def scenario(world):
        await put(world, SALES)
        await world.do(f"/accounts/{SALES}/control/telegram/users/{ANA}/message", {"text": "kept"})
        await world.restart()
        _, found = await get(world, "/control/accounts")
        assert list(found["accounts"]) == [SALES]
        _, chat = await get(world, f"/accounts/{SALES}/chat/telegram/chats/{ANA}")
        assert [each["text"] for each in chat["messages"]] == ["kept"]
        async with world.session.delete(f"{world.platforms.url}/control/accounts/{SALES}") as response:
            assert response.status == 200
        assert (await get(world, f"/accounts/{SALES}/chat/state"))[0] == 404
        await world.restart()
        assert (await get(world, "/control/accounts"))[1] == {"accounts": {}}

    play(scenario)


@pytest.mark.parametrize("name", ["telegram", "pigeon.loft", "telegram.Sales", "telegram..x", "telegram.a.b", "x"])
def test_only_the_name_of_a_further_account_makes_one(name):
    assert not further_accounts.is_name(name)


def test_a_name_that_is_none_is_refused_in_words(play):
    async def scenario(world):
        status, answer = await put(world, "telegram.Sales")
        assert (status, "telegram.sales" in answer["error"]) == (400, True)

    play(scenario)


def test_one_tap_makes_a_bot_that_works_at_the_same_address(play):
    """As Postroom asks for it: a button, the update, the token, the webhook, and then messages of its own chats."""
    wanted = {"request_id": 7, "suggested_name": "Clerk", "suggested_username": "clerk_ab12_bot"}
    markup = {"keyboard": [[{"text": "Make the bot Clerk", "request_managed_bot": wanted}]]}

    async def scenario(world):
        await world.platforms.register_one("telegram")
        await world.say("hello")
        await world.endpoint.wait(1)
        sent = (await world.bot("sendMessage", chat_id=int(ANA), text="One tap", reply_markup=markup))["result"]
        _, chat = await get(world, f"/chat/telegram/chats/{ANA}")
        ((key,),) = chat["messages"][-1]["keyboard"]
        press = f"/control/telegram/chats/{ANA}/messages/{sent['message_id']}/press"
        await world.do(press, {"person": ANA, "data": key["callback_data"]})
        told = (await world.endpoint.wait(2))[1].body["managed_bot"]
        assert (str(told["user"]["id"]), told["bot"]["username"]) == (ANA, "clerk_ab12_bot")
        token = (await world.bot("getManagedBotToken", user_id=told["bot"]["id"]))["result"]
        base = f"{world.env['TELEGRAM_API_BASE']}/bot{token}"
        hook = {"url": world.config.webhook_urls["telegram"], "secret_token": "of-clerk"}
        listed = {"commands": [{"command": "stop", "description": "Stop"}]}
        calls = {"getMe": {}, "setWebhook": hook, "setMyCommands": listed, "getMyCommands": {}}
        results = {}
        for method, body in calls.items():
            async with world.session.post(f"{base}/{method}", json=body) as response:
                answer = await response.json()
                assert answer["ok"], answer
                results[method] = answer["result"]
        assert results["getMe"]["id"] == told["bot"]["id"]
        assert results["getMyCommands"] == listed["commands"]
        await world.do(f"/accounts/telegram.clerk/control/telegram/users/{ANA}/message", {"text": "hello Clerk"})
        got = (await world.endpoint.wait(3))[2]
        assert got.body["message"]["text"] == "hello Clerk"
        assert got.headers["X-Telegram-Bot-Api-Secret-Token"] == "of-clerk"

    play(scenario)


def test_a_further_app_has_a_gateway_and_files_of_its_own(play):
    async def scenario(world):
        await put(world, "discord.sales")
        base = f"{world.platforms.url}/accounts/discord.sales"
        async with world.session.get(f"{base}/discord/api/v10/gateway") as response:
            url = (await response.json())["url"]
        assert url != (await world.discord("GET", "/gateway"))[1]["url"]
        async with world.session.ws_connect(url + "?v=10&encoding=json") as socket:
            assert json.loads(await socket.receive_str())["op"] == 10
        form = aiohttp.FormData({"person": DISCORD_ANA, "text": "look", "plain": "true"})
        form.add_field("file", b"abc", filename="a.txt", content_type="text/plain")
        async with world.session.post(f"{base}/chat/discord/say", data=form) as response:
            assert response.status == 201, await response.text()

    play(scenario)
