"""``recurrence``: every minute, insert the next occurrence of each series whose last one has ended.

A turn's settlement does the same for its own messages; this function finds what was missed. ``POST /tick``: 200 with
counts, 500 if a table failed. Safe to run twice, or late.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared.core import logs
from shared.core.time import clock
from shared.queue import series
from shared.runtime import framework
from shared.runtime.app import AppResponse, function_app, tick_route
from shared.runtime.past import held
from shared.runtime.service import FunctionService, LazyService

log = logs.get()

_TABLES: dict[str, Callable[..., int]] = {"messages": series.advance_messages, "responses": series.advance_responses}
_MOST_BATCHES = 500  # of one table in one tick: some seconds; the next tick continues
_PAUSE_S = 0.005  # between batches, so that other writers get the lock


class Advanced(msgspec.Struct):
    """How many occurrences were inserted, by table, and the tables that failed."""

    counts: dict[str, int] = msgspec.field(default_factory=dict)
    failed: list[str] = msgspec.field(default_factory=list)


class Recurrence(FunctionService):
    """Advances series, one pass at a time."""

    async def once(self, *, now_ms: int) -> Advanced:
        """One pass over messages and responses, in batches, so that no writer waits for the whole pass."""
        advanced = Advanced()
        for name, advance in _TABLES.items():
            try:
                advanced.counts[name] = await self._all(advance, now_ms)
            except Exception:  # the batch boundary: an error in one table must not stop the other
                log.exception("recurrence.failed", table=name)
                advanced.failed.append(name)
        if any(advanced.counts.values()):
            self.kick("dispatch", "deliver")
        return advanced

    async def _all(self, advance: Callable[..., int], now_ms: int) -> int:
        total = 0
        for _ in range(_MOST_BATCHES):
            count = await self.writer.run(partial(advance, now_ms=now_ms))
            total += count
            if count < series.BATCH:
                break
            await asyncio.sleep(_PAUSE_S)
        return total


_service = LazyService(Recurrence)
lifespan = _service.lifespan


async def _tick(service: Recurrence) -> Response:
    if service.past is not None:
        return held(service.past)
    advanced = await service.once(now_ms=clock.now_ms())
    found = {**advanced.counts, "failed": advanced.failed}
    log.info("recurrence.done", **{name: count for name, count in found.items() if count})
    return JSONResponse(found, 500 if advanced.failed else 200)


_app = function_app("recurrence", [tick_route(_service, _tick)])


@framework.http
async def recurrence(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return AppResponse(_app)
