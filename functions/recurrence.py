"""``recurrence``: every minute, insert the next occurrence of each series whose last one ended.

A turn's settlement does the same for its own messages; this finds what was missed. ``POST /tick``: 200 with counts.
"""

import apsw
import functions_framework.aio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared import clock, logs, series
from shared.db.writer import Writer
from shared.kick import Kicker
from shared.serving import Handled, Held, check_tick, function_app
from shared.settings import Settings

log = logs.get()


class Recurrence:
    """What the function holds between requests."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.kicker = Kicker(settings.sockets)

    async def once(self, *, now_ms: int) -> dict[str, int]:
        """One pass over the messages and the responses; how many occurrences were inserted."""

        def work(conn: apsw.Connection) -> dict[str, int]:
            return {
                "messages": series.advance_messages(conn, now_ms=now_ms),
                "responses": series.advance_responses(conn, now_ms=now_ms),
            }

        inserted = await self.writer.run(work)
        if any(inserted.values()):
            self.kicker.kick("dispatch")
            self.kicker.kick("deliver")
        return inserted

    def close(self) -> None:
        self.writer.close()
        self.kicker.close()


_held = Held(lambda: Recurrence(Settings.load()))
lifespan = _held.lifespan


async def _tick(request: Request) -> Response:
    service = _held.get()
    check_tick(request, service.settings.tick_secret)
    inserted = await service.once(now_ms=clock.now_ms())
    log.info("recurrence.done", **inserted)
    return JSONResponse(inserted)


_app = function_app("recurrence", [], tick=_tick)


@functions_framework.aio.http
async def recurrence(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return Handled(_app)
