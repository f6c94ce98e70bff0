"""The relay against the fake Gateway of the emulator, which resumes, cuts and refuses as Discord does."""

import asyncio
import contextlib
import json

from aiohttp import web

from infra.discord_relay.gateway import GatewayClient, RelayOptions
from infra.discord_relay.outbox import Outbox
from infra.discord_relay.state import StateFile

ANA = "80000000000000001"
SECRET = "whsec_eGW35rnSQddE0zDuw7Og/k+dNq912WKR"


@contextlib.asynccontextmanager
async def relaying(world, path, target):
    async def soon(seconds):
        await asyncio.sleep(min(seconds, 0.01) if seconds < 30 else seconds)

    api = world.env["DISCORD_API_BASE"]
    options = RelayOptions(api, world.env["DISCORD_BOT_TOKEN"], world.env["DISCORD_APPLICATION_ID"])
    client = GatewayClient(world.session, options, StateFile(path), sleep=soon)
    outbox = Outbox(world.session, target, SECRET, done=client.note_stored, sleep=soon)
    tasks = [asyncio.create_task(outbox.run()), asyncio.create_task(client.run(outbox))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        client.save()


async def connected(world):
    async with asyncio.timeout(20):
        while True:  # no event announces it
            found = await world.see("/control/discord/gateway")
            if any(each["is_connected"] for each in found["sessions"]):
                return found
            await asyncio.sleep(0.005)


def test_nothing_is_lost_over_cuts_and_restarts(play, tmp_path):
    stored, news = {}, asyncio.Condition()

    async def take(request):
        frame = json.loads(await request.read())
        async with news:
            stored[request.headers["webhook-id"]] = frame["d"]["content"]  # a repetition is stored once
            news.notify_all()
        return web.Response()

    async def came(*expected):
        async with asyncio.timeout(20), news:
            await news.wait_for(lambda: list(stored.values()) == list(expected))

    async def scenario(world):
        app = web.Application()
        app.add_routes([web.post("/", take)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        target = f"http://127.0.0.1:{runner.addresses[0][1]}/"

        def say(text):
            return world.do(f"/control/discord/users/{ANA}/message", {"text": text})

        async with relaying(world, tmp_path / "relay.json", target):
            await connected(world)
            await say("one")
            await came("one")
            for disturbance in ({"do": "close", "code": 4000}, {"do": "reconnect"}):
                await world.do("/control/discord/gateway", disturbance)
                await connected(world)
            await say("two")
            await came("one", "two")
        await say("while it was away")
        async with relaying(world, tmp_path / "relay.json", target):
            await came("one", "two", "while it was away")
            found = await connected(world)
        assert len(found["sessions"]) == 1
        await runner.cleanup()

    play(scenario)
