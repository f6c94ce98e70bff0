"""A host of models on loopback, which answers as a test says, and a gateway in front of it."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from shared.db.engine.connection import open_connection
from shared.db.engine.group_commit import Writer
from shared.db.spending.usage import TurnName
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.gateway.tokens import ProgramTurn
from shared.turns.gateway.upstreams import GatewaySettings

EVENTS = Path(__file__).parents[3] / "events/models"
KEY = "sk-real-key-of-the-operator"
TURN = TurnName("turn_1", "assistant", "session_1")
PATHS = {"messages": "/v1/messages", "chat": "/chat/completions", "responses": "/responses"}
NAMES = {"messages": "anthropic", "chat": "openai", "responses": "openai"}


@dataclass
class ModelHost:
    """What the host got, and how it answers: *serve* is a handler of aiohttp."""

    serve: object = None
    url: str = ""
    requests: list = field(default_factory=list)
    bodies: list = field(default_factory=list)
    was_cut: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request):
        self.requests.append(request)
        self.bodies.append(await request.read())
        try:
            return await self.serve(request)
        except (asyncio.CancelledError, ConnectionResetError):
            self.was_cut.set()
            raise


@contextlib.asynccontextmanager
async def hosting(serve, port=0):
    """A running host. *port*: 0 for a free one."""
    host = ModelHost(serve)
    app = web.Application(client_max_size=10**9)
    app.router.add_route("*", "/{rest:.*}", host.answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    try:
        yield host
    finally:
        await runner.cleanup()


@dataclass
class Program:
    """A program of an agent: what it has, and what its runner heard."""

    gateway: ModelGateway
    client: aiohttp.ClientSession
    socket: Path
    path: str
    token: str
    refusals: list
    notices: list

    def post(self, path, **more):
        """Send a request with the token, in either header, as programs do."""
        headers = {"x-api-key": self.token, "content-type": "application/json", **more.pop("headers", {})}
        return self.client.post(URL(f"http://gateway{self.path}{path}", encoded=True), headers=headers, **more)

    def begin(self, turn=TURN):
        self.gateway.begin(self.token, ProgramTurn(turn, self.hear))

    def hear(self, refusal):
        """Keep refusals; a whole answer is none."""
        if refusal is not None:
            self.refusals.append(refusal)


def settings(host, **more):
    """The operator's settings for a host."""
    known = {
        "anthropic_api_key": KEY,
        "openai_api_key": KEY,
        "anthropic_base_url": host.url,
        "openai_base_url": host.url,
    }
    return GatewaySettings(**{**known, **more})


@contextlib.asynccontextmanager
async def running(db, folder, host, upstream="anthropic", **more):
    """A program in a turn, behind a gateway."""
    reader, writer = open_connection(db, readonly=True), Writer(db)
    notices = []
    gateway = ModelGateway(
        folder, reader, writer, timezone="UTC", on_notice=lambda: notices.append(1), models=settings(host, **more)
    )
    access = await gateway.open(TURN, upstream, has_sandbox=True)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(access.socket))) as client:
            program = Program(gateway, client, access.socket, access.models, access.token, [], notices)
            program.begin()
            yield program
    finally:
        await gateway.close()
        writer.close()
        reader.close()


def stream_of(name, *, without_end=False, pieces=None):
    """A handler that streams the recorded answer."""
    recorded = (EVENTS / f"{name}.sse").read_bytes()
    events = [event + b"\n\n" for event in recorded.strip().split(b"\n\n")]

    async def serve(request):
        answer = web.StreamResponse(headers={"content-type": "text/event-stream", "anthropic-ratelimit-x": "7"})
        await answer.prepare(request)
        for event in events[: -1 if without_end else None]:
            await answer.write(event)
        await answer.write_eof()
        return answer

    return serve


def reply(status, body="{}", **headers):
    """A handler that answers at once."""

    async def serve(_):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=body, headers=named, content_type="application/json")

    return serve
