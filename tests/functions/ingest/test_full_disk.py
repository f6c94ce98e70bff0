"""Where the disk takes nothing more, nothing is acknowledged."""

import asyncio

import pytest

from functions import ingest
from tests.emulator.processes.faulty_disk import FaultyDisk
from tests.functions.ingest.kit import numbered, telegram
from tests.support import column


@pytest.fixture
def disk(tmp_path):
    made = FaultyDisk(tmp_path)
    yield made
    made.lift()


def test_ingest_acknowledges_nothing_that_a_full_disk_did_not_take(disk, serving, conn, environment) -> None:
    """The platform sends again what got 503, and then it is stored once."""

    async def scenario() -> list[int]:
        async with serving(ingest) as client:

            async def send(number: int) -> int:
                call = telegram(numbered(number), method="POST", url="/webhooks/telegram")
                return (await client.request(**call)).status_code

            answers = [await send(1)]
            disk.set(kind="full")
            answers += [await send(2), await send(1)]
            disk.lift()
            return [*answers, await send(2), await send(1)]

    assert asyncio.run(scenario()) == [200, 503, 503, 200, 200]
    assert len(column(conn, "SELECT id FROM messages")) == 2
