"""A function whose lifespan hangs at the end."""

import asyncio
from contextlib import asynccontextmanager

from tests.infra.samples.sample import log
from tests.infra.samples.sample import sample as stubborn

__all__ = ["lifespan", "stubborn"]


@asynccontextmanager
async def lifespan(_):
    log.info("sample.opened")
    yield
    log.info("sample.hangs")
    await asyncio.Event().wait()
