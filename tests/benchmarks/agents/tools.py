"""Section 7, tools: one call of ``send_message`` over MCP, as a program makes it, to the committed response."""

import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop
from starlette.types import Receive, Scope, Send

from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, scalar
from shared.db.engine.group_commit import Writer
from shared.turns.gateway.server import ProgramServer
from shared.turns.mcp.app import McpApp
from shared.turns.tools.toolbox import Caller, SessionToolbox
from tests.benchmarks.harness.client import Connection, connections
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, percentile
from tests.benchmarks.harness.store import Store

_TOKEN = "benchmark-token"
_REVISIONS = ("2025-06-18", "2026-07-28")
_BARS = ((0.5, 2.5), (0.99, 6.0))


class _Host:
    """What a toolbox needs of dispatch."""

    def __init__(self, db: Path) -> None:
        self.reader = open_connection(db, readonly=True)
        self.writer = Writer(db)

    def kick(self, *names: str) -> None:
        """Nobody listens."""

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


class _Timed:
    """The application, and how long it took for each request: from the first byte of its head to the end."""

    def __init__(self, app: McpApp) -> None:
        self._app = app
        self.times: list[float] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        await self._app(scope, receive, send)
        self.times.append((time.perf_counter() - start) * 1000)


def call(scale: Scale) -> Iterator[Line]:
    """One program calls the tool again and again, on one connection; each call says something else."""
    for revision in _REVISIONS:
        rounds = uvloop.run(_measure(scale, revision))
        for share, bar in _BARS:
            yield at_most(
                f"a call of send_message over MCP {revision}, committed (FULL), server side: p{share * 100:.0f}",
                Spread.of(percentile(each, share) for each in rounds),
                bar,
                "ms",
                reason="the client runs in the same process",
            )


async def _measure(scale: Scale, revision: str) -> list[list[float]]:
    async with _serving(scale.place(f"tools-{revision}") / "b.db") as (app, port, said), connections(port, 1) as (one,):
        numbers = itertools.count()
        await _calls(one, revision, numbers, 50)
        rounds = []
        for _ in range(scale.rounds):
            app.times.clear()
            await _calls(one, revision, numbers, scale.few(1000, 100))
            rounds.append(list(app.times))
        if said() != next(numbers):
            raise RuntimeError("a call said nothing")
        return rounds


@asynccontextmanager
async def _serving(db: Path) -> AsyncIterator[tuple[_Timed, int, Callable[[], int]]]:
    """The server with the tools of one running turn; its port, and how much was said."""
    store = Store(db, "FULL")
    store.insert_one()
    claim = store.claim(1)
    if claim is None:
        raise RuntimeError("there is a message to claim")
    host = _Host(db)
    tools = SessionToolbox(host, Settings(db=db, tool_calls=100_000), Caller.of(claim))
    app = McpApp(lambda token: tools if token == _TOKEN else None)
    timed, server = _Timed(app), ProgramServer(db.parent / "programs")
    server.mount("mcp", timed)
    try:
        yield (
            timed,
            await server.start_loopback("loopback"),
            lambda: scalar(host.reader, "SELECT count(*) FROM responses"),
        )
    finally:
        await server.close()
        await app.close()
        host.close()
        store.conn.close()


async def _calls(connection: Connection, revision: str, numbers: Iterator[int], count: int) -> None:
    for number in itertools.islice(numbers, count):
        status = await connection.send(_request(revision, number))
        if status != 200 or b'"isError":true' in connection.body:
            raise RuntimeError(f"call {number}: {status} {connection.body[:300]!r}")


def _request(revision: str, number: int) -> bytes:
    """The call as claude (2026-07-28) or codex (2025-06-18) makes it."""
    meta: dict[str, object] = {"callId": f"call-{number}"}
    more = ""
    if revision == _REVISIONS[1]:
        prefix = "io.modelcontextprotocol"
        meta = {
            "claudecode/toolUseId": f"toolu-{number}",
            f"{prefix}/protocolVersion": revision,
            f"{prefix}/clientInfo": {"name": "claude", "version": "2"},
            f"{prefix}/clientCapabilities": {},
        }
        more = "Mcp-Method: tools/call\r\nMcp-Name: send_message\r\n"
    params = {"name": "send_message", "arguments": {"text": f"{number}: working on it"}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {_TOKEN}\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {revision}\r\n{more}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


LINES = (call,)
