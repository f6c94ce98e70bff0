"""Long polling on the fake Telegram."""

import asyncio

from tests.emulator.platforms.telegram.test_files import refusal


def poll(world, **more):
    return asyncio.create_task(world.bot("getUpdates", timeout=30, **more))


def test_a_poll_waits_for_the_next_update(play):
    async def scenario(world):
        waiting = poll(world)
        assert await world.clock.asleep() == 30_000
        said = await world.say("news")
        (update,) = (await waiting)["result"]
        assert (update["update_id"], update["message"]["text"]) == (said["update_id"], "news")

    play(scenario)


def test_a_poll_ends_empty_after_its_time(play):
    async def scenario(world):
        waiting = poll(world)
        await world.clock.asleep()
        world.clock.advance(30_000)
        assert (await waiting)["result"] == []

    play(scenario)


def test_a_second_poll_ends_the_first(play):
    async def scenario(world):
        first = poll(world)
        await world.clock.asleep()
        second = poll(world)
        code, why = refusal(await first)
        assert (code, why[:46]) == (409, "Conflict: terminated by other getUpdates reque")
        await world.say("news")
        assert len((await second)["result"]) == 1

    play(scenario)


def test_a_negative_offset_forgets_all_but_the_last(play):
    async def scenario(world):
        for text in ("one", "two", "three"):
            await world.say(text)
        found = (await world.bot("getUpdates", offset=-1))["result"]
        assert [update["message"]["text"] for update in found] == ["three"]
        assert len((await world.bot("getUpdates"))["result"]) == 1

    play(scenario)


def test_polls_keep_the_kinds_that_they_ask_for(play):
    async def scenario(world):
        await world.bot("getUpdates", allowed_updates=["callback_query"])
        await world.say("unheard")
        assert (await world.bot("getUpdates"))["result"] == []

    play(scenario)
