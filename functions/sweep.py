"""``sweep``: every minute, rescue what lost its process, and prune what is old, in batches that hold the lock briefly.

``POST /tick``: 200 with counts. Safe to run twice, or late: each step looks only at the rows.
"""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import apsw
import functions_framework.aio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared import clock, deliveries, logs, turns
from shared.channels import registry
from shared.db import dropped, messages, meta, responses
from shared.db.writer import Writer
from shared.deliveries import Policy
from shared.kick import Kicker
from shared.serving import Handled, Held, check_tick, function_app
from shared.settings import Settings
from shared.turns import RetryPolicy

log = logs.get()

_BATCH = 500  # rows looked at in one transaction: a few milliseconds of the write lock
_PAUSE_S = 0.005  # between batches, so that others get in
_DROPPED_KEPT_MS = 30 * 24 * 60 * 60 * 1000

Prune = Callable[..., tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did."""

    rescued_turns: int
    rescued_sends: int
    pruned_messages: int
    pruned_responses: int
    pruned_refusals: int


class Sweep:
    """What the function holds between requests."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.kicker = Kicker(settings.sockets)
        self.running = asyncio.Lock()

    async def once(self, *, now_ms: int) -> Swept:
        """One sweep; each batch commits alone, so nobody waits for all of it."""
        settings = self.settings
        policy = RetryPolicy.of(settings)
        lost = await self.writer.run(lambda conn: turns.rescue(conn, policy, now_ms=now_ms))
        sends = 0
        for name in registry.NAMES:
            sends += await self.writer.run(
                partial(deliveries.rescue, channel=name, policy=Policy.of(settings), now_ms=now_ms)
            )
        if lost or sends:
            self.kicker.kick("dispatch")
            self.kicker.kick("deliver")
        cutoff = now_ms - settings.retention_ms
        swept = Swept(
            rescued_turns=len(lost),
            rescued_sends=sends,
            pruned_messages=await self._prune(messages.prune, cutoff),
            pruned_responses=await self._prune(responses.prune, cutoff),
            pruned_refusals=await self.writer.run(
                lambda conn: dropped.prune(conn, older_than_ms=now_ms - _DROPPED_KEPT_MS, limit=_BATCH), durable=False
            ),
        )
        await self.writer.run(partial(_finish, now_ms=now_ms), durable=False)
        return swept

    async def _prune(self, prune: Prune, cutoff: int) -> int:
        """Walk the whole table from its oldest row, a batch at a time."""
        total, after = 0, 0
        while True:
            batch = partial(prune, after_id=after, older_than_ms=cutoff, limit=_BATCH)
            deleted, after = await self.writer.run(batch, durable=False)
            total += deleted
            if after == 0:
                return total
            await asyncio.sleep(_PAUSE_S)

    def close(self) -> None:
        self.writer.close()
        self.kicker.close()


def _finish(conn: apsw.Connection, now_ms: int) -> None:
    """The heartbeat tells a reader of the replica how old it is; optimise keeps the planner's statistics fresh."""
    meta.put(conn, "heartbeat_at", str(now_ms))
    conn.execute("PRAGMA optimize")


_held = Held(lambda: Sweep(Settings.load()))
lifespan = _held.lifespan


async def _tick(request: Request) -> Response:
    service = _held.get()
    check_tick(request, service.settings.tick_secret)
    if service.running.locked():
        return JSONResponse({"skipped": "the last sweep still runs"}, status_code=202)
    async with service.running:
        swept = await service.once(now_ms=clock.now_ms())
    log.info("sweep.done", **asdict(swept))
    return JSONResponse(asdict(swept))


_app = function_app("sweep", [], tick=_tick)


@functions_framework.aio.http
async def sweep(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return Handled(_app)
