"""Section 7, the gateway of models beside no gateway: a host on loopback, asked directly and through it, in turns.

Host, gateway and client are three processes. Each event carries the instant at which the host wrote it.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.group_commit import Writer
from shared.db.spending import budgets
from shared.db.spending.usage import TurnName
from shared.roster.new_database import prepare_database
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.gateway.tokens import ProgramTurn
from shared.turns.gateway.upstreams import GatewaySettings
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, percentile

_EVENTS = 200
_PAUSE_S = 0.002  # between events: a fast model
_TURN = TurnName("turn_1", "assistant", "session_1", ("chat_1",))
_LAST = b'data: {"type":"message_delta","usage":{"output_tokens":200}}\n\ndata: {"type":"message_stop"}\n\n'


def gateway(scale: Scale) -> Iterator[Line]:
    """The first byte and each event, beyond what the host alone takes."""
    with _Processes(scale.place("gateway")) as running:
        found = uvloop.run(_measure(running, scale))
    reason = "host, gateway and client share two cores"
    beside = f"directly {_p50(found.direct_first):.2f} ms; of {len(found.direct_first)} requests of 50 kB, in turns"
    first = _p50(found.first) - _p50(found.direct_first)
    yield at_most(
        "first byte of a model, through the gateway, beyond direct: p50",
        Spread.of([first]),
        1.5,
        "ms",
        beside=beside,
        reason=reason,
    )
    event = _p50(found.event) - _p50(found.direct_event)
    yield at_most(
        "each streamed event, the same: p50",
        Spread.of([event]),
        0.2,
        "ms",
        beside=f"directly {_p50(found.direct_event):.3f} ms, one each {_PAUSE_S * 1000:g} ms",
        reason=reason,
    )


def _p50(seconds: list[float]) -> float:
    return percentile(seconds, 0.5) * 1000


@dataclass
class _Found:
    first: list[float]
    direct_first: list[float]
    event: list[float]
    direct_event: list[float]


async def _measure(running: "_Processes", scale: Scale) -> _Found:
    found = _Found([], [], [], [])
    direct = aiohttp.ClientSession()
    through = aiohttp.ClientSession(connector=aiohttp.UnixConnector(running.socket, limit=0))
    async with direct, through:
        ways = [
            (direct, f"{running.host}/v1/messages", found.direct_first, found.direct_event),
            (through, "http://gateway/anthropic/v1/messages", found.first, found.event),
        ]
        for client, url, *_ in ways:
            await _stream(client, url, running.token)
        for _ in range(scale.rounds * scale.few(20, 3)):
            for client, url, first, events in ways:
                came, delays = await _stream(client, url, running.token)
                first.append(came)
                events += delays
            ways.reverse()
    return found


async def _stream(client: aiohttp.ClientSession, url: str, token: str) -> tuple[float, list[float]]:
    """The seconds to the first byte, and from the host's write to our read of each event."""
    asked = [{"role": "user", "content": "x" * 50_000}]
    body = {"model": "m", "stream": True, "max_tokens": 1, "messages": asked}
    start = time.perf_counter()
    delays = []
    async with client.post(url, json=body, headers={"x-api-key": token}) as answer:
        answer.raise_for_status()
        await answer.content.readline()
        first = time.perf_counter() - start
        async for line in answer.content:
            delays += [time.monotonic() - json.loads(line[6:])["at"]] if line.startswith(b'data: {"at"') else []
    if len(delays) != _EVENTS:
        raise RuntimeError(f"{len(delays)} events came of {_EVENTS}")
    return first, delays


class _Processes:
    """The host and the gateway."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "_Processes":
        (self.host,) = self._start("host")
        self.socket, self.token = self._start("gateway", str(self._folder), self.host)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._running:
            each.kill()
            each.wait()

    def _start(self, *words: str) -> list[str]:
        command = [sys.executable, "-m", "tests.benchmarks.agents.models", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._running.append(process)
        assert process.stdout is not None
        return process.stdout.readline().split()


async def _serve_host() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"type":"message_start","message":{"usage":{"input_tokens":9}}}\n\n')
        for _ in range(_EVENTS):
            await asyncio.sleep(_PAUSE_S)
            await response.write(f'data: {{"at": {time.monotonic()!r}}}\n\n'.encode())
        await response.write(_LAST)
        return response

    app = web.Application()
    app.router.add_post("/v1/messages", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def _serve_gateway(folder: str, host: str) -> None:
    """As in dispatch, with a budget that is looked at before each request."""
    db = Path(folder) / "p.db"
    prepare_database(db)
    conn = open_connection(db)
    with transaction(conn):
        budgets.put(conn, None, "month", "tokens", 10**12, now_ms=1)
    models = GatewaySettings(anthropic_api_key="sk-benchmark-key", anthropic_base_url=host)  # type: ignore[arg-type]
    reader = open_connection(db, readonly=True)
    served = ModelGateway(
        Path(folder) / "run", reader, Writer(db), timezone="UTC", on_notice=lambda: None, models=models
    )
    access = await served.open(_TURN, "anthropic", has_sandbox=True)
    served.begin(access.token, ProgramTurn(_TURN, lambda _: None))
    sys.stdout.write(f"{access.socket} {access.token}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


LINES = (gateway,)

if __name__ == "__main__":
    uvloop.run(_serve_host() if sys.argv[1] == "host" else _serve_gateway(*sys.argv[2:]))
