"""An exported request is a pytest that is red until the fault is fixed."""

import asyncio

import pytest
from aiohttp import web

from emulator.cli.commands.running.pytest_file import written
from tests.emulator.platforms.conftest import play  # noqa: F401 - the world of the fakes

ANA = "5000000001"


async def outcome(world, text):
    """What the exported test says: None if it is green."""
    names = {}
    exec(compile(text, "test_exported.py", "exec"), names)  # noqa: S102 - the file as pytest reads it
    names["LIMIT_S"] = 2
    (test,) = (each for name, each in names.items() if name.startswith("test_"))
    try:
        await asyncio.to_thread(test)
    except AssertionError as red:
        return str(red)
    return None


@pytest.fixture
def at(monkeypatch):
    return lambda world: monkeypatch.setenv("TELEGRAM_API_BASE", world.env["TELEGRAM_API_BASE"])


def test_a_webhook_that_the_bot_refused_is_red_until_it_takes_it(play, at):  # noqa: F811
    async def scenario(world):
        at(world)
        status = [500]
        world.endpoint.telegram = lambda got: web.Response(status=status.pop() if status else 200)
        await world.platforms.register()
        news = await world.live_events()
        await world.say("hello")
        await news.until("delivery", state="delivered")
        (refused,) = (await world.see("/control/requests?refused=1"))["requests"]
        shown = await world.see(f"/control/requests/{refused['id']}")
        text = written(shown, shown["body"], None)
        status += [500, 500]
        assert "'status': 500" in await outcome(world, text)
        await world.clock.asleep()
        world.clock.advance(100_000)  # the update that was refused is tried again, and holds back no other
        assert await outcome(world, text) is None

    play(scenario)


def test_a_call_that_the_platform_refused_is_red_until_it_takes_it(play, at):  # noqa: F811
    async def scenario(world):
        at(world)
        said = {"method": "sendMessage", "chat_id": int(ANA), "text": "<b>", "parse_mode": "HTML"}
        world.endpoint.telegram = lambda got: web.json_response(said)
        await world.platforms.register()
        news = await world.live_events()
        await world.say("hello")
        await news.until("call", method="sendMessage")
        (refused,) = (await world.see("/control/requests?refused=1"))["requests"]
        call = await world.see(f"/control/requests/{refused['id']}")
        cause = await world.see(f"/control/requests/{call['cause']}")
        text = written(call, cause["body"], None)
        assert "find end tag" in await outcome(world, text)
        said["text"] = "<b>hi</b>"
        assert await outcome(world, text) is None

    play(scenario)
