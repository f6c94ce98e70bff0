"""What the tests of sweep and recurrence share."""

import asyncio

from functions.sweep import Sweep
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from tests.support import NOW, put

DAY = 86_400_000
NINE = NOW + 3_600_000


_USUAL = ("analysed_tables", "counted_events")


def run(make, now_ms):
    async def go():
        service = make(Settings.load())
        try:
            return await service.once(now_ms=now_ms)
        finally:
            await service.close()

    return asyncio.run(go())


def sweep_at(now_ms):
    return run(Sweep, now_ms)


def done(swept):
    """The counts of a sweep that are not zero, without those that every sweep has."""
    assert (swept.failed, swept.left) == ([], [])
    return {name: count for name, count in swept.counts.items() if count and name not in _USUAL}


SERIES = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "s1", "scheduled_at": NINE}


def missed(conn, misfire="coalesce", **fields):
    """An occurrence that ended without a successor, as a release without series left it."""
    put(conn, "task", process_after=NINE, **{**SERIES, **fields})
    with transaction(conn):
        ended = "UPDATE messages SET status = 'completed', misfire = :misfire WHERE id = (SELECT max(id) FROM messages)"
        rows(conn, ended, {"misfire": misfire})
