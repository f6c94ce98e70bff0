import contextlib

import pytest

from functions import api
from functions.dispatch import Dispatch
from shared.core.settings import Settings
from tests.serving import day_of_the_events, environment, serving, until

__all__ = ["day_of_the_events", "environment", "serving", "until"]


@pytest.fixture
def running(serving):
    """``api`` and ``dispatch``, running together; a client for ``api``."""

    @contextlib.asynccontextmanager
    async def start():
        dispatch = Dispatch(Settings.load())
        dispatch.worker.begin()
        try:
            async with serving(api, "localhost:3777") as client:
                yield client
        finally:
            await dispatch.close()

    return start
