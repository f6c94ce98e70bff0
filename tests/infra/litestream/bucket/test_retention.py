"""Old prefixes go when no reader is promised a position in them any more; the current one never goes."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infra.litestream.bucket.retention import oldest_removable, remove_files
from infra.litestream.lease import Lease
from infra.litestream.lease_owner import LeaseOwner
from infra.litestream.replica_settings import DAY_MS, RETENTION_MS, retention_ms_from
from infra.litestream.restored_files import read_facts
from infra.litestream.supervisor import LitestreamSupervisor
from shared.core.errors import ConfigInvalid
from shared.core.time import clock
from shared.db.replica import lease_record
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.lease_record import LeaseRecord, ReplicaPrefix
from shared.db.replica.object_store import open_store
from shared.db.replica.stored_objects import StoreUnreachable
from spark_jobs import replicas
from tests.emulator.storage.test_s3_server import ENVIRONMENT
from tests.infra.litestream.test_two_machines import Machine, began, machines, url  # noqa: F401 - two are fixtures

NOW = 1_700_000_000_000


def prefix(name: str, days_ago: float, now_ms: int = NOW) -> ReplicaPrefix:
    return ReplicaPrefix(name, name, "owner_one", now_ms - int(days_ago * DAY_MS))


def at(current: ReplicaPrefix, *old_prefixes: ReplicaPrefix, has_full_copy: bool = True) -> LeaseRecord:
    return LeaseRecord("owner_one", "t", "h", "d", 0, 0, 0, False, current, has_full_copy, 0, old_prefixes)


A, B, C = prefix("epoch_a", 40), prefix("epoch_b", 30), prefix("epoch_c", 14)


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (at(C, A, B), A),
        (at(C, B), B),
        (at(prefix("epoch_c", 13.9), B), None),  # what the second holds of the last two weeks
        (at(prefix("epoch_d", 1), B, C), B),
        (at(prefix("epoch_d", 1), C), None),
        (at(C), None),
        (at(C, A, B, has_full_copy=False), None),
        (at(C, replace(A, path=""), B), B),  # all prefixes lie below it
        (at(C, C, B), B),
    ],
)
def test_the_oldest_prefix_goes_when_the_one_after_it_exceeds_the_retention(
    there: LeaseRecord, found: ReplicaPrefix | None
) -> None:
    assert oldest_removable(there, NOW, 14 * DAY_MS) == found
    assert oldest_removable(there, NOW, 0) is None


def test_the_retention_is_a_setting() -> None:
    assert retention_ms_from({}) == RETENTION_MS
    assert retention_ms_from({"POSTROOM_REPLICA_RETENTION_MS": "0"}) == 0
    assert retention_ms_from({"POSTROOM_REPLICA_RETENTION_MS": str(7 * DAY_MS)}) == 7 * DAY_MS
    for wrong in (str(7 * DAY_MS - 1), "-1", "14d", "²"):
        with pytest.raises(ConfigInvalid, match="POSTROOM_REPLICA_RETENTION_MS"):
            retention_ms_from({"POSTROOM_REPLICA_RETENTION_MS": wrong})


class Reluctant(FolderStore):
    """Refuses to delete while the test says so."""

    refuses = False

    def delete(self, name: str) -> None:
        if self.refuses:
            raise StoreUnreachable("not now")
        super().delete(name)


def fill(replica: Path, where: ReplicaPrefix, files: int = 5) -> None:
    """Write files as Litestream does."""
    folder = replica / where.key("ltx/0")
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number:016x}.ltx").touch()


def test_files_go_in_batches_and_none_go_when_the_current_prefix_is_empty(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    there = at(C, A, B)
    for each in (A, B):
        fill(tmp_path, each)

    assert not remove_files(store, there, A, limit=2)
    assert len(store.names("", limit=100)) == 10, "the current prefix was emptied"
    fill(tmp_path, C)
    assert [remove_files(store, there, A, limit=2) for _ in range(3)] == [False, False, True]

    assert not (tmp_path / A.path).exists()
    assert [len(store.names(each.key(""), limit=100)) for each in (B, C)] == [5, 5]


def supervise(
    folder: Path, store: FolderStore, told: list[str], keep: Callable[[LitestreamSupervisor], object]
) -> Lease:
    """Run *keep* with a supervisor whose lease record has two expired old prefixes, and one that is not."""
    owner = LeaseOwner("owner_one", "host", f"{folder}/postroom.db")
    lease = Lease(store, owner)
    now_ms = clock.now_ms()
    places = [prefix(f"epoch_{days}", days, now_ms) for days in (60, 50, 40, 1)]

    async def go() -> None:
        await lease.take()
        for before, each in zip([None, *places], places, strict=False):
            fill(folder / "replica", each)
            await lease.begin_prefix(each, before)
        await lease.note_full_copy(places[-1], None)
        await keep(
            LitestreamSupervisor(
                ["true"], replica=f"file://{folder}/replica", environment={"PATH": os.environ["PATH"]},
                database=folder / "postroom.db", control=folder / "l.sock", lease=lease,
                report=lambda event, **_: told.append(event), retention_ms=RETENTION_MS,
            )
        )  # fmt: skip

    asyncio.run(go())
    return lease


def test_the_supervisor_removes_old_prefixes_one_after_the_other(tmp_path: Path) -> None:
    store, told = FolderStore(tmp_path / "replica"), []

    async def keep(one: LitestreamSupervisor) -> None:
        assert [await one.removal.remove() for _ in range(4)] == [None] * 4

    lease = supervise(tmp_path, store, told, keep)

    assert told == ["replicate.removed"] * 2
    there = lease_record.read(store)
    assert there == lease.record
    assert [each.path for each in there.old_prefixes] == ["epoch_40"], "it is what the last two weeks began with"
    assert sorted(path.name for path in (tmp_path / "replica").glob("epoch*")) == ["epoch_1", "epoch_40"]


def test_a_prefix_that_can_not_be_removed_stays_in_the_lease_record(tmp_path: Path) -> None:
    store, told = Reluctant(tmp_path / "replica"), []
    store.refuses = True

    async def keep(one: LitestreamSupervisor) -> None:
        assert await one.removal.remove() == "not now"
        assert len(one.lease.record.old_prefixes) == 3
        store.refuses = False
        assert await one.removal.remove() is None

    assert len(supervise(tmp_path, store, told, keep).record.old_prefixes) == 2
    assert told == ["replicate.removed"]


def test_a_supervisor_that_lost_the_lease_ends_instead_of_removing(tmp_path: Path) -> None:
    store, told = FolderStore(tmp_path / "replica"), []
    other = Lease(store, LeaseOwner("owner_one", "host", "/other"))

    async def keep(one: LitestreamSupervisor) -> None:
        await other.take()
        await one.removal.remove()

    supervise(tmp_path, store, told, keep)
    assert told == ["replicate.fenced"]
    assert len(other.record.old_prefixes) == 3


@pytest.mark.e2e
def test_every_instant_within_the_retention_is_restored_and_read(
    machines: tuple[Machine, Machine],  # noqa: F811
    url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """On a real bucket: the prefix of a Litestream that ended badly long ago goes, and readers find the other."""
    one, two = machines
    store = open_store(url, ENVIRONMENT)
    one.restore()
    one.replicate()
    one.write(3)
    first = began(store).current
    os.kill(one.litestream(), 9)
    one.supervisor.wait_for("replicate.begun", 2)
    one.write(2)
    one.supervisor.stop(15)

    lease = Lease(store, LeaseOwner("owner_three", "host", "/other"))
    told: list[str] = []

    async def go() -> None:
        there = await lease.take()
        assert there.old_prefixes == (first,)
        old = replace(there.current, began_at=there.current.began_at - 15 * DAY_MS)
        older = replace(first, began_at=first.began_at - 20 * DAY_MS)
        await lease._change(lambda there: replace(there, current=old, old_prefixes=(older,)))
        supervisor = LitestreamSupervisor(
            ["true"], replica=url, environment=ENVIRONMENT, database=tmp_path / "none.db", control=tmp_path / "l.sock",
            lease=lease, report=lambda event, **_: told.append(event), retention_ms=RETENTION_MS,
        )  # fmt: skip
        assert await supervisor.removal.remove() is None
        await lease.release()

    asyncio.run(go())
    assert told == ["replicate.removed"]
    assert store.names(f"{first.path}/", limit=10) == []
    pin = replicas.resolve(url)
    assert pin.epoch == lease.record.current.path
    assert two.restore()[1]["step"] == "restore"
    assert read_facts(two.database).newest_event_id == 5
