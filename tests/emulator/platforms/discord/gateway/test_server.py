"""The fake Gateway: what an app must say, when it may resume, and what its intents let it see."""

import asyncio
import json
import zlib

import aiohttp
import pytest

from tests.emulator.platforms.conftest import check_form

ANA, CHANNEL = "80000000000000001", "1290000000000000200"
INTENTS = 1 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13
BEAT_MS = 41_250
FORMS = {"MESSAGE_CREATE": "message_create", "MESSAGE_REACTION_ADD": "reaction_add"}


class App:
    """An app's connection to the Gateway."""

    def __init__(self, world, ws):
        self.world, self.ws = world, ws

    @classmethod
    async def connect(cls, world, query="?v=10&encoding=json"):
        url = (await world.as_bot("GET", "/gateway/bot"))[1]["url"]
        return cls(world, await world.session.ws_connect(url + query))

    async def read(self):
        payload = json.loads(await self.ws.receive_str())
        if form := FORMS.get(payload.get("t")):
            check_form(form, payload["d"])
        return payload

    async def until(self, name):
        while (payload := await self.read()).get("t") != name:
            assert payload["op"] == 0, payload
        return payload

    async def send(self, op, d):
        await self.ws.send_str(json.dumps({"op": op, "d": d}))

    async def identify(self, intents=INTENTS, **more):
        assert (await self.read())["d"]["heartbeat_interval"] == BEAT_MS
        token = self.world.env["DISCORD_BOT_TOKEN"]
        await self.send(2, {"token": token, "intents": intents, "properties": {"os": "x"}, **more})

    async def ready(self, **more):
        await self.identify(**more)
        return (await self.until("READY"))["d"]

    async def resume(self, ready, seq):
        assert (await self.read())["op"] == 10
        token = self.world.env["DISCORD_BOT_TOKEN"]
        await self.send(6, {"token": token, "session_id": ready["session_id"], "seq": seq})

    async def close_code(self):
        while (message := await self.ws.receive()).type is not aiohttp.WSMsgType.CLOSE:
            assert message.type is aiohttp.WSMsgType.TEXT, message
        return message.data


def type_message(world, text, person=ANA, **more):
    return world.do(f"/control/discord/users/{person}/message", {"text": text, **more})


def test_an_app_identifies_and_gets_the_server_and_messages(play):
    async def scenario(world):
        app = await App.connect(world)
        ready = await app.ready()
        assert ready["user"]["id"] == ready["application"]["id"] == world.env["DISCORD_APPLICATION_ID"]
        assert ready["resume_gateway_url"].startswith("ws://127.0.0.1:")
        guild = (await app.until("GUILD_CREATE"))["d"]
        assert [channel["id"] for channel in guild["channels"]] == [CHANNEL]
        said = await type_message(world, "hello")
        got = await app.until("MESSAGE_CREATE")
        assert (got["s"], got["d"]["id"], got["d"]["content"]) == (3, said["message_id"], "hello")
        assert "guild_id" not in got["d"]
        assert (await world.as_bot("GET", "/gateway/bot"))[1]["session_start_limit"]["remaining"] == 999

    play(scenario)


def test_without_the_intent_for_contents_an_app_reads_only_what_concerns_it(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready()
        me = world.env["DISCORD_APPLICATION_ID"]
        for text, seen in (("secret", ""), (f"<@{me}> open", f"<@{me}> open")):
            await type_message(world, text, channel=CHANNEL)
            got = (await app.until("MESSAGE_CREATE"))["d"]
            assert (got["content"], got["guild_id"], got["member"]["roles"]) == (seen, "1290000000000000100", [])
        assert got["mentions"][0]["id"] == me
        await type_message(world, "direct")
        assert (await app.until("MESSAGE_CREATE"))["d"]["content"] == "direct"
        allowed = await App.connect(world)
        await allowed.identify(intents=INTENTS | 1 << 15)
        assert await allowed.close_code() == 4014

    play(scenario)


def test_the_intent_for_contents_works_where_it_is_switched_on(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready(intents=INTENTS | 1 << 15)
        await type_message(world, "secret", channel=CHANNEL)
        assert (await app.until("MESSAGE_CREATE"))["d"]["content"] == "secret"

    play(scenario, privileged_intents=1 << 15)


def test_intents_choose_the_events(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready(intents=1 << 12)
        said = await type_message(world, "in the channel", channel=CHANNEL)
        path = f"/channels/{CHANNEL}/messages/{said['message_id']}/reactions/👀/@me"
        assert (await world.as_bot("PUT", path))[0] == 204
        await type_message(world, "direct")
        got = await app.read()
        assert (got["t"], got["s"], got["d"]["content"]) == ("MESSAGE_CREATE", 2, "direct")

    play(scenario)


def test_edits_deletions_and_reactions_are_events(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready()
        sent = (await world.as_bot("POST", f"/channels/{CHANNEL}/messages", {"content": "one"}))[1]["id"]
        path = f"/channels/{CHANNEL}/messages/{sent}"
        await app.until("MESSAGE_CREATE")
        await world.as_bot("PATCH", path, {"content": "two"})
        assert (await app.until("MESSAGE_UPDATE"))["d"]["content"] == "two"
        await world.as_bot("PUT", f"{path}/reactions/👀/@me")
        added = (await app.until("MESSAGE_REACTION_ADD"))["d"]
        me = world.env["DISCORD_APPLICATION_ID"]
        assert (added["emoji"]["name"], added["user_id"], added["message_author_id"]) == ("👀", me, me)
        await world.as_bot("DELETE", path)
        assert (await app.until("MESSAGE_DELETE"))["d"]["id"] == sent

    play(scenario)


@pytest.mark.parametrize("code", [4000, 4900])
def test_a_resume_repeats_what_was_missed(play, code):
    async def scenario(world):
        app = await App.connect(world)
        ready = await app.ready()
        seen = (await app.until("GUILD_CREATE"))["s"]
        await app.ws.close(code=code)
        await type_message(world, "missed")
        again = await App.connect(world)
        await again.resume(ready, seen)
        assert (await again.until("MESSAGE_CREATE"))["d"]["content"] == "missed"
        await again.until("RESUMED")
        await type_message(world, "live")
        assert (await again.until("MESSAGE_CREATE"))["d"]["content"] == "live"

    play(scenario)


@pytest.mark.parametrize("code", [1000, 1001])
def test_a_session_ends_with_a_normal_close(play, code):
    async def scenario(world):
        app = await App.connect(world)
        ready = await app.ready()
        await app.ws.close(code=code)
        again = await App.connect(world)
        await again.resume(ready, 1)
        assert await again.read() == {"op": 9, "d": False}

    play(scenario)


def test_a_restart_ends_the_sessions(play):
    async def scenario(world):
        ready = await (await App.connect(world)).ready()
        await world.restart()
        again = await App.connect(world)
        await again.resume(ready, 1)
        assert await again.read() == {"op": 9, "d": False}

    play(scenario)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("{", 4002),
        ("[]", 4002),
        ('{"op": 99}', 4001),
        ('{"op": 3, "d": {}}', 4003),
        ('{"op": 2, "d": {"token": "wrong", "intents": 0, "properties": {}}}', 4004),
        ('{"op": 6, "d": {"token": "wrong", "session_id": "x", "seq": 1}}', 4004),
        (json.dumps({"op": 1, "d": "x" * 4096}), 4002),
    ],
)
def test_what_the_gateway_refuses(play, sent, code):
    async def scenario(world):
        app = await App.connect(world)
        await app.ws.send_str(sent)
        assert await app.close_code() == code

    play(scenario)


@pytest.mark.parametrize(
    ("more", "code"), [({"intents": 1 << 40}, 4013), ({"intents": 1 << 1}, 4014), ({"shard": [1, 2]}, 4010)]
)
def test_an_identify_that_the_gateway_refuses(play, more, code):
    async def scenario(world):
        app = await App.connect(world)
        await app.identify(**more)
        assert await app.close_code() == code

    play(scenario)


def test_an_app_identifies_once_and_resumes_at_a_number_that_it_got(play):
    async def scenario(world):
        app = await App.connect(world)
        ready = await app.ready()
        await app.send(2, {"token": world.env["DISCORD_BOT_TOKEN"], "intents": 0, "properties": {}})
        assert await app.close_code() == 4005
        again = await App.connect(world)
        await again.resume(ready, 99)
        assert await again.close_code() == 4007
        assert await (await App.connect(world, "?v=6&encoding=json")).close_code() == 4012

    play(scenario)


def test_the_starts_of_a_day_are_limited(play):
    async def scenario(world):
        await (await App.connect(world)).ready()
        app = await App.connect(world)
        await app.identify()
        assert await app.close_code() == 4004
        assert (await world.as_bot("GET", "/gateway/bot"))[1]["session_start_limit"]["remaining"] == 0
        world.clock.advance(86_400_000)
        assert (await world.as_bot("GET", "/gateway/bot"))[1]["session_start_limit"]["remaining"] == 1

    play(scenario, session_starts=1)


def test_more_than_120_messages_a_minute_end_the_connection(play):
    async def scenario(world):
        app = await App.connect(world)
        for _ in range(121):
            await app.send(1, None)
        assert await app.close_code() == 4008

    play(scenario)


def test_heartbeats_are_acknowledged_and_missing_ones_end_the_connection(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready(intents=0)
        await app.send(1, 1)
        assert (await app.read())["op"] == 11
        assert await world.clock.asleep() == BEAT_MS * 3 // 2
        world.clock.advance(BEAT_MS * 3 // 2)  # it had heard one
        await world.clock.asleep()
        await asyncio.sleep(0)
        world.clock.advance(BEAT_MS * 3 // 2)
        assert await app.close_code() == 4009

    play(scenario)


def test_the_control_api_disturbs_connections(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready(intents=0)
        order = lambda **what: world.do("/control/discord/gateway", what)  # noqa: E731
        await order(do="reconnect")
        assert await app.read() == {"op": 7, "d": None}
        await order(do="silence")
        await app.send(1, 1)
        await order(do="invalid")
        assert await app.read() == {"op": 9, "d": False}  # and no op 11 before it
        await order(do="speak")
        await app.send(1, 1)
        assert (await app.read())["op"] == 11
        assert [s["is_connected"] for s in (await world.see("/control/discord/gateway"))["sessions"]] == [True]
        await order(do="close", code=4000)
        assert await app.close_code() == 4000
        async with world.session.post(world.platforms.url + "/control/discord/gateway", json={"do": "x"}) as refused:
            assert refused.status == 400

    play(scenario)


def test_zlib_stream(play):
    async def scenario(world):
        app = await App.connect(world, "?v=10&encoding=json&compress=zlib-stream")
        unpack = zlib.decompressobj()
        packed = await app.ws.receive_bytes()
        assert packed.endswith(b"\x00\x00\xff\xff")
        assert json.loads(unpack.decompress(packed))["op"] == 10
        await app.send(1, None)
        assert json.loads(unpack.decompress(await app.ws.receive_bytes()))["op"] == 11

    play(scenario)


def test_the_use_of_a_command_is_no_message(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready(intents=1 << 12)
        await world.ask("only an interaction")
        await type_message(world, "a message")
        seen = [(await app.until("MESSAGE_CREATE"))["d"] for _ in range(2)]
        assert [(message["content"], message["flags"]) for message in seen] == [("", 128), ("a message", 0)]

    play(scenario)
