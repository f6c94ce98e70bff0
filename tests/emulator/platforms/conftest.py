"""A test world for the fakes: a loopback port, a scripted endpoint in place of our functions, a manual clock."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from emulator.base.door import Door
from emulator.base.fakes import PLATFORMS
from emulator.platforms import Platforms, PlatformsConfig
from emulator.platforms.discord import schema as discord_schema
from emulator.platforms.telegram import schema as telegram_schema
from shared.channels import registry
from shared.channels.base import WebhookRequest
from tests.infra.processes import kept_port

NOW = 1_795_168_000_000
ANA, BEN, GROUP = "5000000001", "5000000002", "-4001002003"
DISCORD_ANA, DISCORD_DM, DISCORD_CHANNEL = "80000000000000001", "1290000000000000400", "1290000000000000200"
AGENT = {"User-Agent": "DiscordBot (https://example.com, 1)"}


class ManualClock:
    """Stands still until a test advances it. With *runs*, it skips every sleep and records its length."""

    def __init__(self, now_ms: int = NOW, *, runs: bool = False) -> None:
        self.now, self.runs = now_ms, runs
        self.waits: list[int] = []
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []
        self._asleep = asyncio.Event()

    def now_ms(self) -> int:
        return self.now

    async def sleep(self, ms: int) -> None:
        self.waits.append(ms)
        if self.runs:
            self.now += ms
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + ms, future))
        self._asleep.set()
        await future

    async def asleep(self) -> int:
        """Wait until a coroutine sleeps; the remaining time in ms."""
        await self._asleep.wait()
        return min(due for due, _ in self._sleepers) - self.now

    def advance(self, ms: int) -> None:
        self.now += ms
        for sleeper in [one for one in self._sleepers if one[0] <= self.now]:
            self._sleepers.remove(sleeper)
            if not sleeper[1].done():
                sleeper[1].set_result(None)
        if not self._sleepers:
            self._asleep.clear()


@dataclass
class Got:
    """A request that the endpoint received."""

    body: Any
    raw: bytes
    headers: dict[str, str]


Answer = Callable[[Got], Awaitable[web.StreamResponse] | web.StreamResponse]


@dataclass
class Endpoint:
    """Plays our functions: records every request, and answers with the script.

    A platform without a script gets the answer of its adapter, which has the settings *environment*.
    """

    clock: ManualClock
    app_key: str = ""
    telegram: Answer = field(default=lambda got: web.Response())
    discord: Answer = field(default=lambda got: web.json_response({"type": 5}))
    got: list[Got] = field(default_factory=list)
    checks_signatures: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def on_telegram(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self.telegram)

    async def on_discord(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        signed = request.headers["X-Signature-Timestamp"].encode() + raw
        try:
            VerifyKey(bytes.fromhex(self.app_key)).verify(signed, bytes.fromhex(request.headers["X-Signature-Ed25519"]))
        except BadSignatureError:
            if self.checks_signatures:
                return web.Response(status=401)
        if json.loads(raw)["type"] == 1:
            return web.json_response({"type": 1})
        return await self._answer(request, self.discord)

    async def on_other(self, request: web.Request) -> web.StreamResponse:
        with pytest.MonkeyPatch.context() as environ:
            for name, value in self.environment.items():
                environ.setenv(name, value)
            adapter = registry.get.__wrapped__(request.match_info["platform"])
        headers = {name.lower(): value for name, value in request.headers.items()}
        given = WebhookRequest(request.method, dict(request.query), headers, await request.read())
        reply = adapter.receive(given, now_ms=self.clock.now_ms()).reply
        return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)

    async def _answer(self, request: web.Request, script: Answer) -> web.StreamResponse:
        raw = await request.read()
        got = Got(json.loads(raw), raw, dict(request.headers))
        async with self._news:
            self.got.append(got)
            self._news.notify_all()
        answer = script(got)
        return answer if isinstance(answer, web.StreamResponse) else await answer

    async def wait(self, count: int) -> list[Got]:
        """Wait for *count* requests."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.got) >= count)
        return self.got


class World:
    """The fakes, the endpoint and the clock of one scenario."""

    def __init__(self, state: Path, clock: ManualClock, options: dict[str, Any]) -> None:
        self.clock, self.endpoint = clock, Endpoint(clock)
        self._state, self._options = state, options
        self._runner: web.AppRunner | None = None
        self._kept, self._port = kept_port()  # of the platforms, also after a restart
        self.injected = False
        self.session: aiohttp.ClientSession = None
        self.platforms: Platforms = None
        self.config: PlatformsConfig = None

    async def open(self) -> None:
        self.session = aiohttp.ClientSession()
        app = web.Application()
        app.router.add_post("/telegram", self.endpoint.on_telegram)
        app.router.add_post("/discord", self.endpoint.on_discord)
        app.router.add_route("*", "/{platform}", self.endpoint.on_other)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        sock = bound()
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        await web.SockSite(self._runner, sock).start()
        self.config = PlatformsConfig(
            state=self._state,
            webhook_urls={name: f"{url}/{name}" for name in PLATFORMS},
            door=Door(None, "postroom.db-api-token"),
            clock=self.clock,
            **self._options,
        )
        await self.start()

    async def start(self, **changes: Any) -> None:
        self.platforms = Platforms(replace(self.config, **changes))
        await self.platforms.start(bound(self._port))
        self.env = self.endpoint.environment = self.platforms.environment()
        self.endpoint.app_key = self.env["DISCORD_PUBLIC_KEY"]

    async def restart(self, **changes: Any) -> None:
        await self.check_schemas()
        await self.platforms.stop()
        await self.start(**changes)

    async def check_schemas(self) -> None:
        """Whatever the fakes answered and sent has the form that the platforms describe."""
        for call in (await self.see("/control/telegram/calls"))["calls"]:
            if call["answer"].get("ok"):
                problem = telegram_schema.problem_of_result(call["method"], call["answer"]["result"])
                assert problem is None, (call["method"], problem, call["answer"])
        for call in (await self.see("/control/discord/calls"))["calls"]:
            if call["status"] in (200, 201):
                problem = discord_schema.problem_of_answer(call["method"], call["answer"])
                assert problem is None, (call["method"], problem, call["answer"])
        updates = [got.body for got in self.endpoint.got if "update_id" in got.body and not self.injected]
        for update in updates:
            problem = telegram_schema.problem_of("Update", update)
            assert problem is None, (problem, update)

        for got in self.endpoint.got:
            if "update_id" not in got.body:
                check_form("interaction", got.body)

    async def close(self) -> None:
        await self.platforms.stop()
        await self._runner.cleanup()
        await self.session.close()
        self._kept.close()

    async def bot(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call Telegram's API with JSON; returns the envelope."""
        url = f"{self.env['TELEGRAM_API_BASE']}/bot{self.env['TELEGRAM_BOT_TOKEN']}/{method}"
        async with self.session.post(url, json=params) as response:
            envelope = await response.json()
            assert response.status == envelope.get("error_code", 200)
            return {**envelope, "headers": response.headers}

    async def discord(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Call Discord's API without the bot's token; returns status and body."""
        async with self.session.request(
            method, self.env["DISCORD_API_BASE"] + path, json=body, headers={**AGENT, **headers}
        ) as response:
            raw = await response.read()
            return response.status, json.loads(raw) if raw else None

    async def as_bot(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Call Discord's API with the bot's token."""
        return await self.discord(method, path, body, Authorization=f"Bot {self.env['DISCORD_BOT_TOKEN']}")

    async def do(self, path: str, body: Any = None) -> dict[str, Any]:
        """POST to the control API or the chat page."""
        self.injected = self.injected or path.endswith("/updates")  # a recorded one may be from another time
        async with self.session.post(self.platforms.url + path, json=body if body is not None else {}) as response:
            answer = await response.json()
            assert response.status in (200, 201), answer
            return answer

    async def see(self, path: str) -> dict[str, Any]:
        """GET from the control API or the chat page."""
        async with self.session.get(self.platforms.url + path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def say(self, text: str, person: str = ANA, **more: Any) -> dict[str, Any]:
        return await self.do(f"/control/telegram/users/{person}/message", {"text": text, **more})

    async def ask(self, prompt: str, **more: Any) -> dict[str, Any]:
        return await self.do(f"/control/discord/users/{DISCORD_ANA}/ask", {"prompt": prompt, **more})

    async def delivery(self, update_id: int) -> dict[str, Any]:
        rows = (await self.see("/control/telegram/webhook"))["deliveries"]
        return next(row for row in rows if row["update_id"] == update_id)

    async def texts(self, platform: str = "telegram", chat: str = ANA) -> list[str]:
        return [m["text"] for m in (await self.see(f"/control/{platform}/chats/{chat}"))["messages"]]

    async def live_events(self, query: str = "", **more: Any) -> "LiveEvents":
        return LiveEvents(await self.session.get(f"{self.platforms.url}/chat/events{query}", **more))


class LiveEvents:
    """The chat page's stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def until(self, name: str, **facts: Any) -> dict[str, Any]:
        """The next event called *name* with these *facts*."""
        seen = ""
        async for raw in self._response.content:
            line = raw.decode().strip()
            if line.startswith("event: "):
                seen = line.removeprefix("event: ")
            elif line.startswith("data: ") and seen == name:
                data = json.loads(line.removeprefix("data: "))
                if all(data.get(key) == value for key, value in facts.items()):
                    return data
        raise AssertionError(f"the stream ended before {name} {facts}")

    async def end(self) -> None:
        async for _ in self._response.content:
            pass


def check_form(name: str, body: Any) -> None:
    """*body* has the form that Discord sends; *name* is that of a schema beside the tests of the fake Discord."""
    error = best_match(schema_of(name).iter_errors(body))
    assert error is None, (error.json_path, error.message[:500])


@cache
def schema_of(name: str) -> Draft7Validator:
    return Draft7Validator(json.loads((Path(__file__).parent / "discord" / f"{name}.schema.json").read_text()))


def bound(port: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


Scenario = Callable[[World], Awaitable[None]]


@pytest.fixture
def play(tmp_path):
    """Run a scenario in a new world, with a limit of 180 s."""

    def run(scenario: Scenario, *, runs: bool = False, **options: Any) -> None:
        async def main() -> None:
            world = World(tmp_path, ManualClock(runs=runs), {"deadline_ms": 60_000, **options})
            await world.open()
            try:
                async with asyncio.timeout(180):
                    await scenario(world)
                    await world.check_schemas()
            finally:
                await world.close()

        asyncio.run(main())

    return run
