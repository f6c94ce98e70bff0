"""``forget`` over what the fake platforms sent and got, by way of our own functions and a database of theirs."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import web

from emulator.platforms import SystemClock
from functions import api, ingest
from functions.deliver import Deliver
from functions.dispatch import Dispatch
from shared.channels import registry
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, transaction
from shared.db.roster import chats, destinations, teams
from shared.db.roster.teams import Team
from shared.roster import wirings
from spark_jobs.__main__ import main
from tests.emulator.platforms.conftest import ANA, BEN, DISCORD_ANA, DISCORD_CHANNEL, DISCORD_DM, GROUP, World
from tests.emulator.platforms.discord.test_relay import SECRET as RELAY
from tests.emulator.platforms.discord.test_relay import connected, relaying
from tests.serving import _serving, environment, until
from tests.spark_jobs.conftest import Primary
from tests.spark_jobs.mart.publishing import KEY
from tests.spark_jobs.mart.test_forget import everything
from tests.support import NOW, column, make_agent

__all__ = ["environment", "until"]
DISCORD_BEN = "80000000000000002"
EVERYTHING = {"engage_mode": "pattern", "engage_pattern": "."}
WORDS = "zebra plan"
# Repeats what it is told, and passes it on as it is asked to.
PROGRAM = """
import json, sys
for message in json.load(sys.stdin)["messages"]:
    text = message["text"]
    ways = {"room": "[#dev: %s]", "bob": "[@bob: %s]", "hall": "<message to='hall'>%s</message>"}
    for word, passed_on in ways.items():
        if text.startswith(word):
            text = passed_on.replace("'", chr(34)) % ("Ana has " + text)
    print("about " + text)
"""
OPEN = (
    "SELECT (SELECT count(*) FROM messages WHERE trigger = 1 AND status <> 'completed')"
    " + (SELECT count(*) FROM responses WHERE status <> 'acked')"
)


class Town:
    """The fakes, our functions, and the database between them."""

    def __init__(self, world, conn, client, until):
        self.world, self.conn, self._client, self._until = world, conn, client, until

    async def forward(self, path, got):
        headers = {name: value for name, value in got.headers.items() if name.lower() not in ("host", "content-length")}
        answer = await self._client.post(path, content=got.raw, headers=headers)
        return web.Response(
            status=answer.status_code, body=answer.content, headers={"Content-Type": "application/json"}
        )

    async def relay(self, request):
        answer = await self._client.post(
            "/webhooks/discord",
            content=await request.read(),
            headers={name: value for name, value in request.headers.items() if name.lower().startswith("webhook-")},
        )
        return web.Response(status=answer.status_code)

    async def come(self, count):
        """Wait until the people have said *count* things."""
        said = "SELECT count(*) FROM messages WHERE sender_id IS NOT NULL"
        await self._until(lambda: column(self.conn, said)[0] >= count)

    async def shown(self, platform, chat):
        """The ids of all that holds what Ana said."""
        found = (await self.world.see(f"/control/{platform}/chats/{chat}"))["messages"]
        return [each["id"] for each in found if WORDS in each["text"]]

    async def answered(self):
        """Run until no message and no answer waits."""
        services = Dispatch(Settings.load()), Deliver(Settings.load())
        for service in services:
            service.worker.begin()
        await self._until(lambda: column(self.conn, OPEN) == [0] and not any(each.worker.running for each in services))
        for service in services:
            await service.close()


@asynccontextmanager
async def town(db, state, until, monkeypatch):
    world = World(state, SystemClock(), {})
    await world.open()
    for name, value in {**world.env, "DISCORD_RELAY_SECRET": RELAY}.items():
        monkeypatch.setenv(name, value)
    registry.get.cache_clear()
    conn = open_connection(db)
    relay = web.Application()
    async with _serving(ingest) as client:
        made = Town(world, conn, client, until)
        world.endpoint.telegram = partial(made.forward, "/webhooks/telegram")
        world.endpoint.discord = partial(made.forward, "/webhooks/discord")
        relay.router.add_post("/", made.relay)
        runner = web.AppRunner(relay, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await world.platforms.register()
        try:
            async with asyncio.timeout(90):
                async with relaying(world, state / "relay.json", f"http://127.0.0.1:{runner.addresses[0][1]}/"):
                    await connected(world)
                    yield made
        finally:
            await runner.cleanup()
            await world.close()
            conn.close()


def furnish(conn):
    """The agents, a team with a room, and the chats that they answer in."""
    make_agent(conn, "bob")
    make_agent(conn, "assistant", provider="command", config={"command": [sys.executable, "-I", "-S", "-c", PROGRAM]})
    with transaction(conn):
        teams.save(conn, Team("dev", "Dev", "assistant", ("assistant", "bob")), now_ms=NOW)
        for channel, place, is_group in (
            *(("telegram", ANA, False), ("telegram", GROUP, True)),
            *(("discord", DISCORD_DM, False), ("discord", DISCORD_CHANNEL, True)),
        ):
            chat = chats.ensure(conn, channel, place, is_group=is_group, sender_policy="public", now_ms=NOW)
            wirings.connect(conn, chat.id, "assistant", EVERYTHING, now_ms=NOW)
            if channel == "telegram" and is_group:
                destinations.put(conn, "assistant", name="hall", chat=chat.id, now_ms=NOW)


async def live(town):
    """Ana says what nobody shall keep: to the bot, to both groups, to agents that tell each other; Ben replies."""
    world = town.world
    for number, text in enumerate((WORDS, f"room: {WORDS}", f"bob: {WORDS}", f"hall: {WORDS}"), 1):
        await world.say(text)
        await town.come(number)
        await town.answered()
    await world.say(WORDS, chat=GROUP)
    await town.come(5)
    await town.answered()
    for said in await town.shown("telegram", GROUP):
        await world.say("good idea", BEN, chat=GROUP, reply_to=said)
    bot = f"<@{world.env['DISCORD_APPLICATION_ID']}>"
    await world.ask(WORDS, channel=DISCORD_DM)
    for channel in (DISCORD_DM, DISCORD_CHANNEL):
        await world.do(f"/control/discord/users/{DISCORD_ANA}/message", {"text": f"{bot} {WORDS}", "channel": channel})
    await town.come(11)
    await town.answered()
    for said in await town.shown("discord", DISCORD_CHANNEL):
        reply = {"text": f"{bot} good idea", "channel": DISCORD_CHANNEL, "reply_to": said}
        await world.do(f"/control/discord/users/{DISCORD_BEN}/message", reply)
    await town.come(13)
    async with _serving(api) as client:
        for channel, person in (("telegram", ANA), ("discord", DISCORD_ANA)):
            body = {"message": f"think of your {WORDS}", "channel": channel, "sender": "Ana", "senderId": person}
            assert (await client.post("/api/responses", json=body)).status_code == 200
            if channel == "telegram":
                await town.answered()


def assert_gone(place, kept):
    """Nothing in any column of any file names Ana or has a word of hers; what Ben said is there."""
    found = everything(place)
    everything_said = str(found)
    for word in (WORDS, ANA, DISCORD_ANA, DISCORD_DM, "Ana"):
        assert word not in everything_said, [each for rows in found.values() for each in rows if word in str(each)]
    assert sum(row["message"].endswith("good idea") for row in found["messages"]) == kept
    assert not [row for row in found["messages"] if "reply_to" in json.loads(row["content"])]


@pytest.mark.long
def test_nothing_of_a_person_stays_of_what_both_platforms_sent(db, tmp_path, until, monkeypatch, s3, capsys):
    """In a folder, in a bucket, and where people are hashed; a later run of ``publish`` brings nothing back."""
    monkeypatch.setenv("POSTROOM_MART_KEY", KEY)

    async def scenario():
        async with town(db, tmp_path, until, monkeypatch) as made:
            furnish(made.conn)
            await live(made)
            return column(made.conn, "SELECT count(*) FROM messages WHERE sender = 'Ben'")[0]

    of_ben = asyncio.run(scenario())
    assert of_ben == 5
    primary = Primary(db, f"file://{tmp_path}/replica")
    marts = {
        str(tmp_path / "mart"): (),
        f"s3://bucket/{tmp_path.name}?endpoint={s3}": (),
        str(tmp_path / "hashed"): ("--hash-people",),
    }

    def publish():
        primary.replicate()
        for place, options in marts.items():
            cache = ("--cache-dir", str(tmp_path / "cache"))
            assert main(["publish", "--replica", primary.url, "--mart", place, *cache, *options]) == 0

    publish()
    for place in marts:
        assert WORDS in str(everything(place))
        for channel, person in (("telegram", ANA), ("discord", DISCORD_ANA)):
            assert main(["forget", "--mart", place, "--channel", channel, "--sender-id", person]) == 0
        said = capsys.readouterr().out
        assert "no column of any file holds an id or a name of the person" in said.splitlines()[-1], said
        assert_gone(place, of_ben)
    primary.execute("UPDATE messages SET updated_at = updated_at + 1")
    primary.execute(
        "INSERT INTO events (type, message_id, created_at) SELECT 'chain_step_done', message_id, 1 FROM messages"
    )
    publish()
    for place in marts:
        assert_gone(place, of_ben)
