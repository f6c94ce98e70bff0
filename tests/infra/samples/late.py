"""A function whose start takes for ever."""

import asyncio
from contextlib import asynccontextmanager

from tests.infra.samples.sample import log
from tests.infra.samples.sample import sample as late

__all__ = ["late", "lifespan"]


@asynccontextmanager
async def lifespan(_):
    log.info("sample.opening")
    await asyncio.Event().wait()
    yield
