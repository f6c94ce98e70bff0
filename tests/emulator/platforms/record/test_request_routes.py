"""The record over HTTP."""

ANA = "5000000001"


async def error_of(world, method, path):
    async with world.session.request(method, world.platforms.url + path) as response:
        return response.status, (await response.json())["error"]


def test_webhooks_and_calls_stand_in_one_list_without_bodies(play):
    async def scenario(world):
        await world.platforms.register()
        await world.say("hello")
        await world.endpoint.wait(1)
        world.clock.advance(5)
        await world.bot("sendMessage", chat_id=int(ANA), text="<b>", parse_mode="HTML")
        world.clock.advance(5)
        await world.bot("sendMessage", chat_id=int(ANA), text="hi")
        listed = (await world.see(f"/control/requests?chat={ANA}"))["requests"]
        assert [(each["id"][:3], each["what"], each["status"]) for each in listed] == [
            ("in-", "message", 200), ("out", "sendMessage", 400), ("out", "sendMessage", 200),
        ]  # fmt: skip
        assert not {"body", "params", "answer"} & set().union(*listed)
        (refused,) = (await world.see(f"/control/requests?chat={ANA}&refused=1"))["requests"]
        shown = await world.see(f"/control/requests/{refused['id']}")
        assert (shown["params"]["text"], shown["answer"]["ok"], shown["cause"]) == ("<b>", False, listed[0]["id"])

    play(scenario)


def test_a_webhook_is_sent_again_and_a_call_is_not(play):
    async def scenario(world):
        await world.platforms.register()
        news = await world.live_events()
        await world.say("hello")
        await news.until("delivery", state="delivered")
        (first,) = (await world.see(f"/control/requests?chat={ANA}"))["requests"]
        await world.do(f"/control/requests/{first['id']}/replay")
        one, other = await world.endpoint.wait(2)
        assert one.raw == other.raw
        await world.bot("getMe")
        call = (await world.see("/control/requests"))["requests"][-1]["id"]
        assert await error_of(world, "POST", f"/control/requests/{call}/replay") == (
            400, "a call is the bot's own: only a webhook (in-…) can be sent again",
        )  # fmt: skip
        assert await error_of(world, "GET", "/control/requests/in-99") == (
            404, "there is no request in-99: `emulator requests list` names them",
        )  # fmt: skip

    play(scenario)
