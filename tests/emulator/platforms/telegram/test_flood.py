"""Flood control is on without a setting, as on the real platform."""

import asyncio

from tests.emulator.platforms.telegram.methods.test_media_messages import album
from tests.emulator.platforms.telegram.pictures import png
from tests.emulator.platforms.telegram.test_files import send

ANA, GROUP = 5000000001, -4001002003


def test_a_group_gets_20_messages_a_minute(play):
    async def scenario(world):
        write = lambda: world.bot("sendMessage", chat_id=GROUP, text="x")  # noqa: E731
        assert all([(await write())["ok"] for _ in range(20)])
        refused = await write()
        assert (refused["error_code"], refused["parameters"]) == (429, {"retry_after": 60})
        assert refused["headers"]["Retry-After"] == "60"
        await world.say("hello")
        assert (await world.bot("sendMessage", chat_id=ANA, text="x"))["ok"]  # another chat
        world.clock.advance(60_000)
        assert (await write())["ok"]

    play(scenario)


def test_a_person_gets_bursts_and_one_message_a_second(play):
    async def scenario(world):
        await world.say("hello")
        write = lambda: world.bot("sendMessage", chat_id=ANA, text="x")  # noqa: E731
        assert all([(await write())["ok"] for _ in range(20)])
        assert (await write())["parameters"] == {"retry_after": 20}
        edit = await world.bot("editMessageText", chat_id=ANA, message_id=2, text="y")
        assert edit["error_code"] == 429
        world.clock.advance(20_000)
        assert (await write())["ok"]

    play(scenario)


def test_all_chats_together_get_30_messages_a_second(play):
    async def scenario(world):
        people = [str(5100000000 + number) for number in range(31)]
        await asyncio.gather(*(world.say("hello", person) for person in people))
        answers = [await world.bot("sendMessage", chat_id=int(person), text="x") for person in people]
        assert [answer["ok"] for answer in answers] == [True] * 30 + [False]
        assert answers[-1]["parameters"] == {"retry_after": 1}

    play(scenario)


def test_each_message_of_an_album_counts_and_a_refused_one_counts_nothing(play):
    async def scenario(world):
        for _ in range(19):
            assert (await world.bot("sendMessage", chat_id=GROUP, text="x"))["ok"]
        files = {"f0": ("a.png", png(), "image/png"), "f1": ("b.png", png(5, 5), "image/png")}
        form = {"chat_id": str(GROUP), "media": album("photo", "photo")}
        assert (await send(world, "sendMediaGroup", form, **files))["error_code"] == 429
        assert (await world.bot("sendMessage", chat_id=GROUP, text="x"))["ok"]

    play(scenario)


def test_the_limits_can_be_switched_off(play):
    async def scenario(world):
        for _ in range(21):
            assert (await world.bot("sendMessage", chat_id=GROUP, text="x"))["ok"]

    play(scenario, limits=False)
