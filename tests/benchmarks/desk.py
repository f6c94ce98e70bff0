"""Section 4, the operator's page on a bad day with ten million finished rows: its views, and what open pages cost."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import uvloop

from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import messages
from shared.runtime.kick import Kicker
from tests.benchmarks.growth import grown
from tests.benchmarks.harness import client
from tests.benchmarks.harness.client import Connection, connections, load
from tests.benchmarks.harness.crew import crew
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_least, at_most, percentile, ratios
from tests.benchmarks.harness.system import System
from tests.benchmarks.harness.trouble import Trouble
from tests.benchmarks.webhook import webhooks

_BAR_MS = 100
_PAGES = 50
_KEPT_S = 15.0  # so long the page keeps what it asks seldom
_WARM_S = 4.0  # all have opened, and wait for their turn

_BESIDE_OVERVIEW = ("replica", "budgets", "health", "alerts?limit=50", "alerts/routes")

# What the page asks for, view by view (shared/rest/desk/page), and the rest that a bar names.
Views = Mapping[str, Sequence[str]]


def views(scale: Scale) -> Iterator[Line]:
    """Each view over HTTP, with all that it asks for, one request after the other."""
    path = grown(scale)
    trouble = Trouble(path, 0.1 if scale.is_quick else 1)
    trouble.add()
    try:
        asked = _views(path)
        with System(scale.place("desk"), db=path) as system:
            system.start("api")
            found = uvloop.run(_opened(system.port("api"), asked, scale))
        for name, rounds in found.items():
            yield at_most(
                f"{name} with {scale.rows:,} finished rows and a bad day's, p99",
                Spread.of(percentile(times, 0.99) for times in rounds),
                _BAR_MS,
                "ms",
                beside=f"p50 {Spread.of(percentile(times, 0.5) for times in rounds).median:.1f} ms; "
                + (f"{len(asked[name])} requests" if len(asked[name]) > 1 else "1 request"),
                reason="of so few calls the p99 is the longest, and this client shares the cores",
            )
    finally:
        trouble.remove()


def _views(path: Path) -> Views:
    conn = open_connection(path, readonly=True)
    try:
        ((dead, chat),) = rows(
            conn,
            "SELECT message_id, chat_id FROM messages WHERE status = 'dead' ORDER BY id DESC LIMIT 1",
        )
        ((old, busy),) = rows(
            conn,
            """
            SELECT message_id, (SELECT chat_id FROM messages WHERE status = 'pending' AND trigger = 1 LIMIT 1)
              FROM messages
             WHERE id = (SELECT max(id) / 2 FROM messages)
            """,
        )
        (quiet,) = rows(conn, "SELECT max(id) FROM chats")[0]
    finally:
        conn.close()
    today = int(time.time()) // 86_400 * 86_400_000
    lists = {
        f"the list of what is {name}": [f"/api/lists/{name}?limit=50", "/api/overview"]
        for name in ("waiting", "running", "sending", "dead", "unsent", "done")
    }
    return {
        "overview": ["/api/overview", *(f"/api/{each}" for each in _BESIDE_OVERVIEW)],
        **lists,
        "a list with a filter": [
            "/api/lists/waiting?limit=50&reason=agent_busy",
            "/api/lists/done?limit=50&agent=none",
        ],
        "the next page of a list": [
            "/api/lists/done?limit=50&before=2000000",
            "/api/lists/sending?limit=50&before=9000",
        ],
        "a busy conversation": ["/api/lists/chats?limit=100", f"/api/chats/{busy}/log?limit=60"],
        "a quiet conversation": ["/api/lists/chats?limit=100", f"/api/chats/{quiet}/log?limit=60"],
        "a dead conversation": ["/api/lists/chats?limit=100", f"/api/chats/{chat}/log?limit=60"],
        "the story of a dead message": _story(dead),
        "the story of an old message": _story(old),
        "agents": [
            *("/api/agents", "/api/queue/agents", "/api/budgets", "/api/usage/totals"),
            *(f"/api/usage/totals?since={today}", "/api/lists/running?limit=100"),
        ],
        "schedules": ["/api/schedules", "/api/calendar"],
        "approvals": ["/api/approvals?status=pending&limit=1000", "/api/approvals?limit=100"],
        "what was not answered": ["/api/lists/unanswered?limit=50"],
        "replica": ["/api/replica"],
        "search, a common word": ["/api/why?ref=report", "/api/find?q=report", "/api/search?q=report&limit=50"],
        "search, a word that is nowhere": [
            "/api/why?ref=nowhere",
            "/api/find?q=nowhere",
            "/api/search?q=nowhere&limit=50",
        ],
    }


def _story(message: str) -> list[str]:
    path = f"/api/messages/{message}"
    return [f"{path}/why", path, f"{path}/turns"]


async def _opened(port: int, asked: Views, scale: Scale) -> dict[str, list[list[float]]]:
    """Milliseconds of each view, by round. The overview is kept for a while: it is opened when it is old."""
    found: dict[str, list[list[float]]] = {name: [] for name in asked}
    async with connections(port, 1) as (connection,):
        for number in range(scale.rounds + 1):
            times: dict[str, list[float]] = {name: [] for name in asked}
            for _ in range(scale.few(20, 3)):
                for name, paths in asked.items():
                    times[name].append(await _timed(connection, paths))
            if number:  # the first round fills the caches
                for name, each in times.items():
                    found[name].append(each)
    return found


async def _timed(connection: Connection, paths: Sequence[str]) -> float:
    start = time.perf_counter()
    for path in paths:
        if (status := await connection.send(client.get(path))) != 200:
            raise RuntimeError(f"{path} answered {status}: {connection.body[:200]!r}")
        json.loads(connection.body)
    return (time.perf_counter() - start) * 1000


def pages(scale: Scale) -> Iterator[Line]:
    """``ingest`` under its load of section 2, while 50 pages are open, of all views, against none."""
    path = grown(scale)
    trouble = Trouble(path, 0.1 if scale.is_quick else 1)
    trouble.add()
    try:
        asked = [paths for name, paths in _views(path).items() if not name.startswith(("search", "a list", "the next"))]
        with System(scale.place("open-pages"), {"POSTROOM_NEW_CHATS": "wire"}, db=path) as system, crew(1) as workers:
            system.start("ingest", "api")
            seen: dict[str, list[float]] = {"alone": [], "beside": []}
            opened = 0
            for number in range(scale.rounds + 1):
                for name in ("alone", "beside") if number % 2 else ("beside", "alone"):
                    count = _PAGES if name == "beside" else 0
                    given = (system.port("ingest"), system.port("api"), str(system.db), str(system.run_dir), count)
                    ((rate, opens),) = workers.run([(_beside, (*given, asked, 3 * scale.load_s))])
                    if number:  # the first round warms both
                        seen[name].append(rate)
                        opened += opens
    finally:
        trouble.remove()
    rounds = len(seen["beside"])
    yield at_least(
        f"ingest, 32 at a time, beside {_PAGES} open pages / alone",
        ratios(seen["beside"], seen["alone"]),
        0.95,
        beside=f"{Spread.of(seen['beside']).median:,.0f}/s against {Spread.of(seen['alone']).median:,.0f}/s; "
        f"{opened / rounds:,.0f} views drawn in {3 * scale.load_s + _WARM_S:g} s",
        reason="api, ingest, its writer and this client share two cores",
    )


class _Page:
    """An open page, as its own script does it: it draws when it is told to."""

    def __init__(self, api: int, paths: Sequence[str]) -> None:
        self._api = api
        self._paths = paths
        self._told = asyncio.Event()
        self._kept_until = 0.0
        self.drawn = 0

    async def stay_open(self) -> None:
        """Draw until this is cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._api)
        writer.write(client.get("/api/events/changes"))
        hearing = asyncio.create_task(self._hear(reader))
        try:
            async with connections(self._api, 1) as (connection,):
                while True:
                    await self._told.wait()
                    self._told.clear()
                    await self._draw(connection)
        finally:
            hearing.cancel()
            writer.close()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(4096):
            if b"event:" in piece:
                self._told.set()

    async def _draw(self, connection: Connection) -> None:
        now = time.monotonic()
        has_kept = now < self._kept_until
        for path in self._paths:
            if not (has_kept and path in _SELDOM):
                await connection.send(client.get(path))
        if not has_kept:
            self._kept_until = now + _KEPT_S
        self.drawn += 1


def _beside(
    _: float, ingest: int, api: int, db: str, run_dir: str, count: int, asked: Sequence[Sequence[str]], seconds: float
) -> tuple[float, int]:
    """Webhooks a second while *count* pages are open, and how many views these drew."""
    made = [_Page(api, asked[number % len(asked)]) for number in range(count)]

    async def run() -> float:
        beside = [asyncio.create_task(each) for each in (_announce(db, run_dir), *(each.stay_open() for each in made))]
        await asyncio.sleep(_WARM_S)
        found = await load(ingest, 32, seconds, webhooks(first_chat=40_000))
        broken = [each for each in beside if each.done()]
        for each in beside:
            each.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        for each in broken:
            each.result()
        return found.rate

    return uvloop.run(run()), sum(each.drawn for each in made)


async def _announce(db: str, run_dir: str) -> None:
    """Write the events of what has come in, as dispatch does."""
    conn, kicker = open_connection(Path(db)), Kicker(Path(run_dir))
    while True:
        with transaction(conn):
            messages.announce(conn)
        kicker.kick("api")
        await asyncio.sleep(0.1)


_SELDOM = (*(f"/api/{each}" for each in _BESIDE_OVERVIEW), "/api/usage/totals")

LINES = (views, pages)
