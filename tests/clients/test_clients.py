"""The client libraries that others use drive the fakes: what these do not accept, a real bot would not either."""

import asyncio

import aiohttp
import pytest

from tests.clients.harness import library, world_of
from tests.emulator.platforms.conftest import ANA, DISCORD_CHANNEL
from tests.emulator.platforms.telegram.pictures import png

pytestmark = pytest.mark.clients


async def send_picture(world):
    form = aiohttp.FormData({"person": ANA, "text": "look"})
    form.add_field("file", png(), filename="a.png", content_type="image/png")
    async with world.session.post(f"{world.platforms.url}/chat/telegram/say", data=form) as response:
        assert response.status == 201, await response.text()


def test_python_telegram_bot(tmp_path):
    async def scenario():
        async with world_of(tmp_path) as world, library(world, "bots", "ptb.py", ANA) as ptb:
            await world.say("hello")
            await send_picture(world)
            found = await ptb.found()
        assert found["heard"] == [["text", "hello", "Ana"], ["photo", "look", len(png())]]
        assert found["me"] == "postroom_bot"
        assert (found["edited"], found["buttons"], found["file"], found["caption"]) == ("new", False, "abc", "notes")
        assert found["album"] == [1, 2, "two"]
        assert (found["poll"], found["moved"]) == (["quiz", True], [1, 900])
        assert found["contact"] == ["Cara", 1, True]
        assert found["member"] == ["member", "Not enough rights to restrict/unrestrict chat member"]
        assert (found["max_reactions"], found["commands"], found["deleted"]) == (11, ["start"], True)
        assert found["refused"].startswith("Can't parse entities")
        assert 0 < found["flood"] <= 20

    asyncio.run(scenario())


def test_aiogram(tmp_path):
    async def scenario():
        async with world_of(tmp_path) as world, library(world, "bots", "aiogram_bot.py", ANA) as aiogram:
            await world.say("hello")
            await send_picture(world)
            found = await aiogram.found()
        assert found["heard"] == [["hello", None, False], [None, "look", True]]
        assert (found["me"], found["chat"], found["webhook"]) == ("postroom_bot", "private", "")
        assert (found["edited"], found["draft"], found["album"], found["file"]) == ("two", True, 2, "abc")
        assert (found["poll"], found["place"]) == ([True, "Noodles"], ["Cafe", 52.5])
        assert (found["forwarded"], found["copied"], found["pinned"]) == ("postroom_bot", 1, "two")
        assert found["owner"] == ["creator", "Ana"]
        assert (found["voice"], found["topic"]) == (3, True)
        assert "message thread not found" in found["refused"]
        assert 0 < found["flood"] <= 20

    asyncio.run(scenario())


async def use_discord(world, program):
    """Type a message and use a command, once the library is ready; what it found."""
    status, _ = await world.as_bot("PATCH", "/applications/@me", {"interactions_endpoint_url": None})
    assert status == 200
    async with program as running:
        await running.ready()
        await world.do("/control/discord/users/80000000000000001/message", {"text": "hello"})
        await world.ask("why?", channel=DISCORD_CHANNEL)
        return await running.found()


def test_discord_py(tmp_path):
    async def scenario():
        async with world_of(tmp_path) as world:
            found = await use_discord(world, library(world, "bots", "discord_bot.py"))
        assert (found["me"], found["app"], found["guilds"]) == ("postroom", "Postroom", ["Fake server"])
        assert found["heard"] == ["hello", "Ana"]
        assert (found["commands"], found["asked"]) == (["ask"], "why?")
        assert (found["file"], found["reply_to"], found["edited"]) == ("abc", True, ["edited", 1])
        assert (found["reactions"], found["thread"]) == (["👀"], [True, True])
        assert "a plan" in found["history"]
        assert found["direct"] == "private"

    asyncio.run(scenario())


def test_hikari(tmp_path):
    async def scenario():
        async with world_of(tmp_path) as world:
            found = await use_discord(world, library(world, "hikari", "hikari_bot.py"))
        assert (found["me"], found["app"]) == ("postroom", "Postroom")
        assert found["heard"] == ["hello", "Ana"]
        assert (found["commands"], found["asked"], found["owners"]) == ([["ask", 0]], "why?", 1)
        assert (found["file"], found["reply_to"], found["edited"]) == ("abc", True, ["edited", 1])
        assert (found["reactions"], found["thread"], found["overwrites"]) == (["👀"], [True, True], 0)
        assert "a plan" in found["history"]

    asyncio.run(scenario())
