"""What happens to the lease while a start restores."""

import asyncio
from pathlib import Path

from infra.litestream.prepare import Step
from shared.db.replica import lease_record
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.object_store import open_store
from tests.infra.litestream.test_restore import ENVIRONMENT, Machine, one, url

__all__ = ["one", "url"]


def test_a_restore_that_takes_longer_than_the_lease_lasts_keeps_it(one: Machine, tmp_path: Path, url: str) -> None:
    two = Machine(tmp_path / "two", url, ttl_ms=40)
    store = open_store(url, ENVIRONMENT)

    async def slow_copy(_: ReplicaPrefix, __: Path) -> None:
        taken = store.get(lease_record.NAME)
        async with asyncio.timeout(10):
            while store.get(lease_record.NAME) == taken:  # noqa: ASYNC110 - the bucket sets no event
                await asyncio.sleep(0.005)

    assert two.start(warm_copy=slow_copy).step is Step.RESTORE
    assert two.facts[1] == 3


def test_a_start_tells_how_many_events_of_the_holder_are_missing(one: Machine, tmp_path: Path, url: str) -> None:
    asyncio.run(one.lease.renew(newest_event_id=8))  # it died before the last five were sent

    assert Machine(tmp_path / "two", url).start().events_missing == 5


def test_a_start_that_restores_everything_says_so(one: Machine, tmp_path: Path, url: str) -> None:
    assert Machine(tmp_path / "two", url).start().events_missing == 0
