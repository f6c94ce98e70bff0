"""Earlier places of a replica go when nobody is promised a position in them any more, and never the present one."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infra.litestream.lease import Lease, Owner
from infra.litestream.restore_command import facts_of
from infra.litestream.retention import DAY_MS, KEPT_MS, removable, remove_some, retention_from
from infra.litestream.supervisor import Keeper
from shared.core import clock
from shared.core.errors import ConfigInvalid
from shared.replica import lease_record
from shared.replica.lease_record import Place, Pointer
from shared.replica.object_store import FolderStore, StoreUnreachable, open_store
from spark_jobs import replicas
from tests.emulator.storage.test_s3_server import ENVIRONMENT
from tests.infra.litestream.test_two_machines import Machine, began, machines, until, url  # noqa: F401 - two are fixtures

NOW = 1_700_000_000_000


def place(name: str, days_ago: float, now_ms: int = NOW) -> Place:
    return Place(name, name, "owner_one", now_ms - int(days_ago * DAY_MS))


def at(present: Place, *earlier: Place, is_begun: bool = True) -> Pointer:
    return Pointer("owner_one", "t", "h", "d", 0, 0, 0, False, present, is_begun, 0, earlier)


A, B, C = place("epoch_a", 40), place("epoch_b", 30), place("epoch_c", 14)


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (at(C, A, B), A),
        (at(C, B), B),
        (at(place("epoch_c", 13.9), B), None),  # what the second holds of the last two weeks
        (at(place("epoch_d", 1), B, C), B),
        (at(place("epoch_d", 1), C), None),
        (at(C), None),
        (at(C, A, B, is_begun=False), None),
        (at(C, replace(A, prefix=""), B), B),  # all places lie below it
        (at(C, C, B), B),
    ],
)
def test_the_oldest_place_goes_when_the_one_after_it_is_older_than_it_is_kept(
    there: Pointer, found: Place | None
) -> None:
    assert removable(there, NOW, 14 * DAY_MS) == found
    assert removable(there, NOW, 0) is None


def test_the_setting() -> None:
    assert retention_from({}) == KEPT_MS
    assert retention_from({"POSTROOM_REPLICA_RETENTION_MS": "0"}) == 0
    assert retention_from({"POSTROOM_REPLICA_RETENTION_MS": str(7 * DAY_MS)}) == 7 * DAY_MS
    for wrong in (str(7 * DAY_MS - 1), "-1", "14d", "²"):
        with pytest.raises(ConfigInvalid, match="POSTROOM_REPLICA_RETENTION_MS"):
            retention_from({"POSTROOM_REPLICA_RETENTION_MS": wrong})


class Reluctant(FolderStore):
    """Refuses to delete while it is told to."""

    refuses = False

    def delete(self, name: str) -> None:
        if self.refuses:
            raise StoreUnreachable("not now")
        super().delete(name)


def fill(replica: Path, where: Place, files: int = 5) -> None:
    """As Litestream does."""
    folder = replica / where.within("ltx/0")
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number:016x}.ltx").touch()


def test_it_goes_a_bit_at_a_time_and_nothing_goes_when_the_present_place_is_empty(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    there = at(C, A, B)
    for each in (A, B):
        fill(tmp_path, each)

    assert not remove_some(store, there, A, limit=2)
    assert len(store.names("", limit=100)) == 10, "the present place was emptied"
    fill(tmp_path, C)
    assert [remove_some(store, there, A, limit=2) for _ in range(3)] == [False, False, True]

    assert not (tmp_path / A.prefix).exists()
    assert [len(store.names(each.within(""), limit=100)) for each in (B, C)] == [5, 5]


def keeper(folder: Path, store: FolderStore, told: list[str], keep: Callable[[Keeper], object]) -> Lease:
    """A keeper whose lease names two earlier places that are old, and one that is not; it does *keep*."""
    owner = Owner("owner_one", "host", f"{folder}/postroom.db")
    lease = Lease(store, owner)
    now_ms = clock.now_ms()
    places = [place(f"epoch_{days}", days, now_ms) for days in (60, 50, 40, 1)]

    async def go() -> None:
        await lease.take()
        for before, each in zip([None, *places], places, strict=False):
            fill(folder / "replica", each)
            await lease.begin(each, before)
        await lease.begun(places[-1], None)
        await keep(
            Keeper(
                ["true"], replica=f"file://{folder}/replica", environment={"PATH": os.environ["PATH"]},
                database=folder / "postroom.db", control=folder / "l.sock", lease=lease,
                tell=lambda event, **_: told.append(event), kept_ms=KEPT_MS,
            )
        )  # fmt: skip

    asyncio.run(go())
    return lease


def test_a_keeper_removes_them_one_after_the_other_and_forgets_them(tmp_path: Path) -> None:
    store, told = FolderStore(tmp_path / "replica"), []

    async def keep(one: Keeper) -> None:
        assert [await one.remove() for _ in range(4)] == [None] * 4

    lease = keeper(tmp_path, store, told, keep)

    assert told == ["replicate.removed"] * 2
    there = lease_record.read(store)
    assert there == lease.pointer
    assert [each.prefix for each in there.earlier] == ["epoch_40"], "it is what the last two weeks began with"
    assert sorted(path.name for path in (tmp_path / "replica").glob("epoch*")) == ["epoch_1", "epoch_40"]


def test_what_can_not_be_removed_stays_named_and_disturbs_nothing(tmp_path: Path) -> None:
    store, told = Reluctant(tmp_path / "replica"), []
    store.refuses = True

    async def keep(one: Keeper) -> None:
        assert await one.remove() == "not now"
        assert len(one.lease.pointer.earlier) == 3
        store.refuses = False
        assert await one.remove() is None

    assert len(keeper(tmp_path, store, told, keep).pointer.earlier) == 2
    assert told == ["replicate.removed"]


def test_who_has_lost_the_lease_ends(tmp_path: Path) -> None:
    store, told = FolderStore(tmp_path / "replica"), []
    other = Lease(store, Owner("owner_one", "host", "/other"))

    async def keep(one: Keeper) -> None:
        await other.take()
        await one.remove()

    keeper(tmp_path, store, told, keep)
    assert told == ["replicate.fenced"]
    assert len(other.pointer.earlier) == 3


@pytest.mark.e2e
def test_what_is_left_is_restored_and_read_at_every_instant_that_is_kept(
    machines: tuple[Machine, Machine],  # noqa: F811
    url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """On a real bucket: after a bad end of Litestream long ago, its place goes, and readers find the other."""
    one, two = machines
    store = open_store(url, ENVIRONMENT)
    one.restore()
    one.replicate()
    one.write(3)
    first = began(store).place
    os.kill(one.litestream(), 9)
    one.keeper.wait_for("replicate.begun", 2)
    one.write(2)
    one.keeper.stop(15)

    lease = Lease(store, Owner("owner_three", "host", "/other"))
    told: list[str] = []

    async def go() -> None:
        there = await lease.take()
        assert there.earlier == (first,)
        old = replace(there.place, began_at=there.place.began_at - 15 * DAY_MS)
        older = replace(first, began_at=first.began_at - 20 * DAY_MS)
        await lease.renew(place=old, earlier=(older,))
        one_keeper = Keeper(
            ["true"], replica=url, environment=ENVIRONMENT, database=tmp_path / "none.db", control=tmp_path / "l.sock",
            lease=lease, tell=lambda event, **_: told.append(event), kept_ms=KEPT_MS,
        )  # fmt: skip
        assert await one_keeper.remove() is None
        await lease.release()

    asyncio.run(go())
    assert told == ["replicate.removed"]
    assert store.names(f"{first.prefix}/", limit=10) == []
    pin = replicas.resolve(url, timestamp="2999-01-01")
    assert pin.epoch == lease.pointer.place.prefix
    assert two.restore()[1]["step"] == "restore"
    assert facts_of(two.database).mark == 5
