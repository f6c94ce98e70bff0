"""Bots that a person gives to this one."""

from tests.emulator.platforms.telegram.test_files import refusal

ANA = "5000000001"


def test_a_managed_bot_is_told_and_its_token_works_until_it_is_replaced(play):
    async def scenario(world):
        made = await world.do(f"/control/telegram/users/{ANA}/bots", {"name": "Sales", "username": "ana_sales_bot"})
        (update,) = (await world.bot("getUpdates"))["result"]
        told = update["managed_bot"]
        assert (told["user"]["id"], str(told["bot"]["id"])) == (int(ANA), made["bot"])
        token = (await world.bot("getManagedBotToken", user_id=told["bot"]["id"]))["result"]
        me = await get_me(world, token)
        assert (me["result"]["username"], me["result"]["is_bot"]) == ("ana_sales_bot", True)
        new = (await world.bot("replaceManagedBotToken", user_id=told["bot"]["id"]))["result"]
        assert (await get_me(world, token))["error_code"] == 401
        assert (await get_me(world, new))["ok"]
        assert "managed_bot" in (await world.bot("getUpdates"))["result"][-1]
        assert refusal(await world.bot("getManagedBotToken", user_id=5)) == (400, "BOT_INVALID")

    play(scenario)


def test_usernames_of_bots_end_with_bot_and_are_unique(play):
    async def scenario(world):
        path = f"{world.platforms.url}/control/telegram/users/{ANA}/bots"
        for username, status in (("sales", 400), ("sales_bot", 201), ("Sales_Bot", 400)):
            async with world.session.post(path, json={"name": "x", "username": username}) as answer:
                assert answer.status == status

    play(scenario)


async def get_me(world, token):
    async with world.session.get(f"{world.env['TELEGRAM_API_BASE']}/bot{token}/getMe") as response:
        return await response.json()
