"""Section 7, tools: one call of ``send_message`` over MCP, as a program makes it, to the committed response.

The server is a process of its own, with the log of dispatch: each call writes a line, which no terminal shows.
"""

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from shared.core import logs
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, scalar
from shared.db.engine.group_commit import Writer
from shared.turns.gateway.server import ProgramServer
from shared.turns.mcp.app import McpApp
from shared.turns.tools.toolbox import Caller, SessionToolbox
from tests.benchmarks.harness.client import Connection, connections, get
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, percentile
from tests.benchmarks.harness.store import Store

_TOKEN = "benchmark-token"
_REVISIONS = ("2025-06-18", "2026-07-28")
_BARS = ((0.5, 2.5), (0.99, 6.0))


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
                reason="the server and its client share two cores",
            )


async def _measure(scale: Scale, revision: str) -> list[list[float]]:
    with _server(scale.place(f"tools-{revision}")) as (port, db):
        async with connections(port, 1) as (one,):
            numbers = itertools.count()
            await _calls(one, revision, numbers, 50)
            await _times(one)
            rounds = []
            for _ in range(scale.rounds):
                await _calls(one, revision, numbers, scale.few(1000, 100))
                rounds.append(await _times(one))
        with contextlib.closing(open_connection(db, readonly=True)) as conn:
            if scalar(conn, "SELECT count(*) FROM responses") != next(numbers):
                raise RuntimeError("a call said nothing")
    return rounds


async def _times(connection: Connection) -> list[float]:
    """How long the server took for each call since the last question, in ms."""
    await connection.send(get("/times"))
    found: list[float] = json.loads(connection.body)
    return found


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[tuple[int, Path]]:
    """The server in its process: its port, and its database."""
    command = [sys.executable, "-m", "tests.benchmarks.agents.tools", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), folder / "b.db"
        finally:
            process.kill()


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


class _Host:
    """What a toolbox needs of dispatch."""

    def __init__(self, db: Path) -> None:
        self.reader = open_connection(db, readonly=True)
        self.writer = Writer(db)

    def kick(self, *names: str) -> None:
        """Nobody listens."""


class _Timed:
    """The application, and how long it took for each request: from the first byte of its head to the end."""

    def __init__(self, app: McpApp) -> None:
        self._app = app
        self._times: list[float] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        await self._app(scope, receive, send)
        self._times.append((time.perf_counter() - start) * 1000)

    async def tell(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the times, and begin anew."""
        times, self._times = self._times, []
        await JSONResponse(times)(scope, receive, send)


async def _serve(folder: Path) -> None:
    """Serve the tools of one running turn."""
    store = Store(folder / "b.db", "FULL")
    store.insert_one()
    claim = store.claim(1)
    if claim is None:
        raise RuntimeError("there is a message to claim")
    tools = SessionToolbox(_Host(store.path), Settings(db=store.path, tool_calls=100_000), Caller.of(claim))
    timed = _Timed(McpApp(lambda token: tools if token == _TOKEN else None))
    server = ProgramServer(folder / "programs")
    server.mount("mcp", timed)
    server.mount("times", timed.tell)
    port, told = await server.start_loopback("loopback"), sys.stdout
    with (folder / "log").open("w") as log, contextlib.redirect_stdout(log):
        logs.configure("dispatch")
        told.write(f"{port}\n")
        told.flush()
        await asyncio.Event().wait()


LINES = (call,)

if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))
