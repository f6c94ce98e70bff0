"""``recurrence``: every minute, insert the next occurrence of each series whose last one ended.

A turn's settlement does the same for its own messages; this finds what was missed. ``POST /tick``: 200 with counts, 500
if a table failed. Safe to run twice, or late.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared.core import clock, logs
from shared.core.settings import Settings
from shared.db.engine.group_commit import Writer
from shared.queue import series
from shared.runtime import framework
from shared.runtime.app import Handled, Held, check_tick, function_app
from shared.runtime.kick import Kicker

log = logs.get()

_TABLES: dict[str, Callable[..., int]] = {"messages": series.advance_messages, "responses": series.advance_responses}
_MOST_BATCHES = 500  # of one table in one tick: some seconds; the next tick goes on
_PAUSE_S = 0.005  # between batches, so that others get in


@dataclass(slots=True)
class Advanced:
    """How many occurrences were inserted, by table, and the tables that failed."""

    counts: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Recurrence:
    """What the function holds between requests."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.kicker = Kicker(settings.sockets)

    async def once(self, *, now_ms: int) -> Advanced:
        """One pass over the messages and the responses, in batches, so that nobody waits for all of it."""
        advanced = Advanced()
        for name, advance in _TABLES.items():
            try:
                advanced.counts[name] = await self._all(advance, now_ms)
            except Exception:  # the batch boundary: what is wrong with one table must not stop the other
                log.exception("recurrence.failed", table=name)
                advanced.failed.append(name)
        if any(advanced.counts.values()):
            self.kicker.kick("dispatch")
            self.kicker.kick("deliver")
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

    def close(self) -> None:
        self.writer.close()
        self.kicker.close()


_held = Held(lambda: Recurrence(Settings.load()))
lifespan = _held.lifespan


async def _tick(request: Request) -> Response:
    service = _held.get()
    check_tick(request, service.settings.tick_secret)
    advanced = await service.once(now_ms=clock.now_ms())
    log.info("recurrence.done", **advanced.counts, failed=advanced.failed)
    return JSONResponse({**advanced.counts, "failed": advanced.failed}, 500 if advanced.failed else 200)


_app = function_app("recurrence", [], tick=_tick)


@framework.http
async def recurrence(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return Handled(_app)
