import asyncio

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from tests.support import column

_OPEN = "SELECT count(*) FROM messages WHERE trigger = 1 AND status IN ('pending', 'processing')"


@pytest.fixture
def to_the_end(conn, until):
    """Runs a dispatch until there is nothing left to do."""

    async def go():
        service = Dispatch(Settings.load())
        service.worker.begin()
        await until(lambda: column(conn, _OPEN) == [0] and not service.worker.running)
        await service.close()

    return lambda: asyncio.run(go())
