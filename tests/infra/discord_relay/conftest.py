"""A Discord whose Gateway does what the test says, and an ingest that remembers what it took."""

import asyncio
import contextlib
import json

import aiohttp
import pytest
from aiohttp import web

from infra.discord_relay.gateway import GatewayClient, RelayOptions
from infra.discord_relay.outbox import Outbox
from infra.discord_relay.state import StateFile
from shared.channels import standard_webhooks
from shared.core.time import clock

SECRET = "whsec_eGW35rnSQddE0zDuw7Og/k+dNq912WKR"
APP = "1290000000000000001"


def message(number, **more):
    author = {"id": "8", "username": "bo"}
    return {"id": str(number), "channel_id": "200", "content": f"text {number}", "author": author, **more}


class GatewayOfATest:
    """One session. ``say`` sends a frame and keeps it, for a resume; ``cut`` ends the connection."""

    def __init__(self):
        self.seq = 0
        self.frames = []
        self.ops = []
        self.closes = []
        self.heartbeat_ms = 60_000
        self.acks = True
        self.remaining = 1000
        self.refuses_resume = False
        self.close_at_identify = None
        self.channels = {}
        self.asked = []
        self.starts = 0
        self._ws = None
        self.connected = asyncio.Event()

    async def bot(self, request):
        assert request.headers["authorization"] == "Bot the.token"
        limit = {"total": 1000, "remaining": self.remaining, "reset_after": 42_000, "max_concurrency": 1}
        return web.json_response({"url": f"http://{request.host}/ws", "shards": 1, "session_start_limit": limit})

    async def channel(self, request):
        self.asked.append(request.match_info["id"])
        found = self.channels.get(request.match_info["id"])
        return web.json_response(found or {"code": 10003}, status=200 if found else 404)

    async def serve(self, request):
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.send_json({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
        async for each in ws:
            payload = json.loads(each.data)
            self.ops.append((payload["op"], payload["d"]))
            await self._answer(ws, payload["op"], payload["d"], request.host)
        self.closes.append(ws.close_code)
        return ws

    async def _answer(self, ws, op, data, host):
        if op == 1 and self.acks:
            await ws.send_json({"op": 11})
        if op == 2 and self.close_at_identify:
            await ws.close(code=self.close_at_identify)
        elif op == 2:
            self.starts += 1
            self.seq, self.frames, self._ws = 0, [], ws
            session = {"session_id": f"session-{self.starts}", "resume_gateway_url": f"http://{host}/ws"}
            await self.say("READY", session)
            self.connected.set()
        if op == 6 and self.refuses_resume:
            await ws.send_json({"op": 9, "d": False})
        elif op == 6:
            self._ws = ws
            for frame in [each for each in self.frames if each["s"] > data["seq"]]:
                await ws.send_json(frame)
            await self.say("RESUMED", {})
            self.connected.set()

    async def say(self, name, data):
        self.seq += 1
        frame = {"op": 0, "t": name, "s": self.seq, "d": data}
        self.frames.append(frame)
        with contextlib.suppress(ConnectionError):
            await self._ws.send_json(frame)

    async def send(self, payload):
        await self._ws.send_json(payload)

    async def cut(self, code=None):
        """Close with *code*; None drops the connection."""
        self.connected.clear()
        if code is None:
            self._ws._req.transport.abort()
        else:
            await self._ws.close(code=code)

    def count(self, op):
        return sum(each == op for each, _ in self.ops)


class IngestOfATest:
    """Takes posts whose signature is right, unless it is down."""

    def __init__(self):
        self.frames = []
        self.ids = []
        self.is_down = False
        self.goes_down_after = None  # so many frames
        self.tries = 0
        self.came = asyncio.Event()

    async def take(self, request):
        self.tries += 1
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.came.set()
        if self.is_down or len(self.frames) == self.goes_down_after:
            return web.Response(status=503)
        self.ids.append(standard_webhooks.verify(SECRET, headers, body, now_ms=clock.now_ms()))
        self.frames.append(json.loads(body))
        return web.Response()

    def texts(self):
        return [frame["d"].get("content") for frame in self.frames]


class RelayWorld:
    def __init__(self, http, address, state):
        self.gateway, self.ingest = GatewayOfATest(), IngestOfATest()
        self.http, self.address, self.state = http, address, state
        self.slept = []

    async def sleep(self, seconds):
        """No wait is long: what is tested is what follows."""
        self.slept.append(seconds)
        await asyncio.sleep(min(seconds, 0.01) if seconds < 59 else seconds)

    @contextlib.asynccontextmanager
    async def relay(self, *, most=1000):
        """A relay process; the block's end is its stop."""
        options = RelayOptions(f"{self.address}/api/v10", "the.token", APP)
        client = GatewayClient(self.http, options, StateFile(self.state), sleep=self.sleep)
        outbox = Outbox(
            self.http, f"{self.address}/ingest", SECRET, done=client.note_stored, most=most, sleep=self.sleep
        )
        tasks = [asyncio.create_task(outbox.run()), asyncio.create_task(client.run(outbox))]
        try:
            yield tasks[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            client.save()

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - no event announces it
                await asyncio.sleep(0.002)


@pytest.fixture
def play(tmp_path):
    """Runs a scenario against a world of its own."""

    def run(scenario):
        async def go():
            app = web.Application()
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            async with aiohttp.ClientSession() as http:
                world = RelayWorld(http, "", tmp_path / "relay.json")
                app.add_routes(
                    [
                        web.get("/api/v10/gateway/bot", world.gateway.bot),
                        web.get("/api/v10/channels/{id}", world.gateway.channel),
                        web.get("/ws/", world.gateway.serve),
                        web.post("/ingest", world.ingest.take),
                    ]
                )
                await runner.setup()
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                port = runner.addresses[0][1]
                world.address = f"http://127.0.0.1:{port}"
                try:
                    await scenario(world)
                finally:
                    await runner.cleanup()

        asyncio.run(go())

    return run
