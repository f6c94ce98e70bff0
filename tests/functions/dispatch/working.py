"""Dispatch at work while a test does something."""

import asyncio
import json

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.db.engine.connection import rows
from tests.support import column

STATUS = "SELECT status FROM messages ORDER BY id"
SAID = "SELECT message FROM responses ORDER BY id"


def working(deed):
    """Run *deed* while a dispatch runs."""

    async def go():
        service = Dispatch(Settings.load())
        service.worker.begin()
        try:
            await deed(service)
        finally:
            await service.close()

    asyncio.run(go())


def batches(conn):
    """The texts of each turn that has begun."""
    found = column(conn, "SELECT data FROM events WHERE type = 'chain_step_start' ORDER BY id")
    names = dict(rows(conn, "SELECT message_id, message FROM messages"))
    return [[names[id_] for id_ in json.loads(data)["batch"]] for data in found]
