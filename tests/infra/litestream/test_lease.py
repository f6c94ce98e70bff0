"""One machine at a time holds the lease; a machine that lost it finds out, and writes nothing."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.litestream.lease import Lease, LeaseHeld, LeaseLost
from infra.litestream.lease_owner import LeaseOwner
from infra.litestream.replica_settings import lease_ms_from
from shared.core.errors import ConfigInvalid
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.lease_record import NAME, ReplicaPrefix
from shared.db.replica.object_store import ObjectStore, open_store
from shared.db.replica.stored_objects import ObjectChanged, ReplicaObject
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.infra.processes import ROOT

PREFIX = ReplicaPrefix("epoch_x", "epoch_x", "owner_one", 1)


class Aged(FolderStore):
    """A store whose clock the test moves."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.older_s = 0.0

    def get(self, name: str) -> ReplicaObject | None:
        found = super().get(name)
        return found and ReplicaObject(found.body, found.tag, found.written_at_s - self.older_s)


def lease(store: ObjectStore, name: str, ttl_ms: int = 60_000, place: str = "here") -> Lease:
    return Lease(store, LeaseOwner(f"owner_{name}", f"host-{name}", f"/data/{name}/postroom.db", place), ttl_ms)


@pytest.fixture
def store(tmp_path: Path) -> Aged:
    return Aged(tmp_path / "replica")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3_server(tmp_path_factory.mktemp("lease") / "s3") as port:
        yield port


def take(one: Lease) -> None:
    asyncio.run(one.take())


def test_a_second_machine_learns_the_holder_since_when_and_what_to_do(store: Aged) -> None:
    take(lease(store, "one"))
    store.older_s = 20
    before = store.get(NAME)

    with pytest.raises(LeaseHeld) as refused:
        take(lease(store, "two"))

    said = str(refused.value)
    assert "host-one (/data/one/postroom.db, owner_one), since 20" in said
    assert "renewed its lease 20 s ago" in said
    assert "try again in 41 s" in said
    assert "stop it there first" in said
    assert before is not None
    assert store.get(NAME).tag == before.tag, "it touched nothing"


def test_the_same_owner_takes_the_lease_at_once_and_its_earlier_process_loses_it(store: Aged) -> None:
    first, again = lease(store, "one"), lease(store, "one")
    take(first)
    take(again)

    with pytest.raises(LeaseLost, match="host-one"):
        asyncio.run(first.renew(newest_event_id=7))
    asyncio.run(again.renew(newest_event_id=8))
    assert again.record.newest_event_id == 8


def test_a_clone_of_the_holders_disk_is_refused_until_the_lease_has_run_out(store: Aged) -> None:
    holder, clone = lease(store, "one"), lease(store, "one", place="elsewhere")
    take(holder)

    with pytest.raises(LeaseHeld, match="It has this machine's owner id: it is a clone of this disk"):
        take(clone)
    asyncio.run(holder.renew(newest_event_id=7))

    store.older_s = 61.5
    take(clone)
    assert clone.may_another_write
    with pytest.raises(LeaseLost, match="host-one"):
        asyncio.run(holder.renew(newest_event_id=8))


def test_the_holder_before_is_known_to_be_gone_at_its_own_place_and_after_it_gave_the_lease_back(store: Aged) -> None:
    take(lease(store, "one"))
    again, clone, other = lease(store, "one"), lease(store, "one", place="elsewhere"), lease(store, "two")
    take(again)
    assert not again.may_another_write
    asyncio.run(again.release())
    take(clone)
    assert not clone.may_another_write
    store.older_s = 61.5

    take(other)

    assert other.may_another_write


def test_of_two_copies_of_one_running_process_one_loses_the_lease(store: Aged) -> None:
    """A virtual machine that was cloned with its memory: both have the token."""
    one = lease(store, "one")
    take(one)
    copy = lease(store, "one")
    copy._tag, copy._record = one._tag, one._record

    asyncio.run(one.renew(newest_event_id=1))
    with pytest.raises(LeaseLost, match="a copy of this process"):
        asyncio.run(copy.renew(newest_event_id=2))
    asyncio.run(one.renew(newest_event_id=3))


def test_a_released_or_expired_lease_is_free_and_keeps_its_prefix(store: Aged) -> None:
    one, two, three = (lease(store, name) for name in ("one", "two", "three"))
    take(one)
    asyncio.run(one.begin_prefix(PREFIX, None))
    asyncio.run(one.release(newest_event_id=5))
    take(two)
    assert (two.record.current, two.record.newest_event_id, two.record.is_released) == (PREFIX, 5, False)
    store.older_s = 60.5
    with pytest.raises(LeaseHeld):
        take(three)  # a store that tells times in whole seconds may be one off
    store.older_s = 61.5

    take(three)

    assert three.record.current == PREFIX
    for loser in (one, two):
        with pytest.raises(LeaseLost):
            asyncio.run(loser.renew(newest_event_id=0))
        with pytest.raises(LeaseLost):
            asyncio.run(loser.begin_prefix(ReplicaPrefix("mine", "mine", "owner_two", 2), None))
    assert three.store.get(NAME).body == three.record.dump()


class Slow(Aged):
    """A store that has written before the second attempt, which then finds another tag."""

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        super().put(name, body, replacing=replacing)
        return super().put(name, body, replacing=replacing)


def test_a_slow_store_that_is_asked_twice_is_not_taken_for_another_machine(tmp_path: Path) -> None:
    one = lease(Slow(tmp_path / "replica"), "one")
    take(one)
    asyncio.run(one.begin_prefix(PREFIX, None))

    asyncio.run(one.renew(newest_event_id=5))

    there = one.store.get(NAME)
    assert there is not None
    assert there.body == one.record.dump()
    assert one.record.newest_event_id == 5


def test_an_expired_lease_that_no_machine_took_is_renewed(store: Aged) -> None:
    """The bucket was away for a while."""
    one = lease(store, "one")
    take(one)
    store.older_s = 3600

    asyncio.run(one.renew(newest_event_id=3))

    assert one.record.newest_event_id == 3


def test_a_deleted_lease_is_lost(store: Aged, tmp_path: Path) -> None:
    one = lease(store, "one")
    take(one)
    (tmp_path / "replica" / NAME).unlink()
    with pytest.raises(LeaseLost, match=r"lease\.json was deleted"):
        asyncio.run(one.renew(newest_event_id=0))


def test_a_write_without_an_answer_does_not_lose_the_lease(store: Aged) -> None:
    class Deaf(Aged):
        deaf = True

        def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
            tag = super().put(name, body, replacing=replacing)
            if self.deaf:
                self.deaf = False
                raise ObjectChanged("the client's second attempt met its first")
            return tag

    deaf = Deaf(store._root)
    one = lease(deaf, "one")
    take(one)
    deaf.deaf = True
    asyncio.run(one.renew(newest_event_id=4))
    assert one.record.newest_event_id == 4
    asyncio.run(one.renew(newest_event_id=5))


def test_a_check_refuses_before_anything_is_written(store: Aged) -> None:
    one, two = lease(store, "one"), lease(store, "two")
    take(one)
    asyncio.run(one.release())
    before = store.get(NAME)

    def refuse(_: object) -> None:
        raise ConfigInvalid("no")

    with pytest.raises(ConfigInvalid):
        asyncio.run(two.take(refuse))
    assert store.get(NAME).body == before.body


@pytest.mark.parametrize("where", ["folder", "s3"])
@pytest.mark.parametrize("situation", ["new", "given back"])
def test_of_many_takers_at_once_exactly_one_gets_the_lease(
    where: str, situation: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"file://{tmp_path}/replica"
    if where == "s3":
        name = f"race-{situation.replace(' ', '-')}"
        url = f"s3://postroom-replica/{name}?endpoint=http://127.0.0.1:{request.getfixturevalue('port')}"
    if situation == "given back":
        first = lease(open_store(url, ENVIRONMENT), "first")
        take(first)
        asyncio.run(first.release())
    takers = [lease(open_store(url, ENVIRONMENT), f"taker{number}") for number in range(8)]
    together = threading.Barrier(len(takers))
    outcomes: list[str] = []

    def race(taker: Lease) -> None:
        together.wait()
        try:
            taker._take(lambda _: None)
            outcomes.append(taker.owner.id)
        except LeaseHeld:
            outcomes.append("held")

    threads = [threading.Thread(target=race, args=(taker,)) for taker in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = [outcome for outcome in outcomes if outcome != "held"]
    held = open_store(url, ENVIRONMENT).get(NAME)
    assert held is not None
    assert f'"owner": "{winner}"'.encode() in held.body


def test_the_duration_of_the_lease_is_a_setting() -> None:
    assert lease_ms_from({}) == 60_000
    assert lease_ms_from({"POSTROOM_REPLICA_LEASE": "5s"}) == 5000
    for wrong in ("500ms", "soon"):
        with pytest.raises(ConfigInvalid, match="POSTROOM_REPLICA_LEASE"):
            lease_ms_from({"POSTROOM_REPLICA_LEASE": wrong})


def test_the_command_shows_the_holder_and_where_the_state_is(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/replica"
    one = lease(open_store(url, {}), "one")
    take(one)
    asyncio.run(one.begin_prefix(PREFIX, None))
    asyncio.run(one.note_full_copy(one.record.current, None))
    shown = subprocess.run(
        [sys.executable, "-m", "infra.lease"],
        cwd=ROOT, env={"POSTROOM_REPLICA_URL": url}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert f'"current": "{url}/epoch_x"' in shown.stdout
    assert '"holder": "host-one' in shown.stdout


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "POSTROOM_REPLICA_URL is not set: set it to"),
        ({"POSTROOM_REPLICA_URL": ""}, "POSTROOM_REPLICA_URL is not set: set it to"),
        ({"POSTROOM_REPLICA_URL": "bucket/postroom"}, "error: POSTROOM_REPLICA_URL: a replica is s3://"),
    ],
)
def test_the_command_names_the_setting_that_is_missing_or_wrong(environment: dict[str, str], said: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "infra.lease"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (shown.returncode, said in shown.stderr) == (78, True), shown.stderr


def test_a_new_prefix_of_the_same_epoch_keeps_the_newest_event_id(store: Aged) -> None:
    one = lease(store, "one")
    take(one)
    asyncio.run(one.begin_prefix(PREFIX, None))
    asyncio.run(one.note_full_copy(PREFIX, "epoch_x"))
    asyncio.run(one.renew(newest_event_id=7))

    asyncio.run(one.begin_prefix_of_same_epoch())

    there = one.record
    assert there.current.path != PREFIX.path
    assert (there.current.epoch, there.current.writer, there.newest_event_id) == ("epoch_x", "owner_one", 7)
    assert (there.has_full_copy, there.old_prefixes) == (False, (PREFIX,))

    asyncio.run(one.note_full_copy(PREFIX, "epoch_x"))
    assert not one.record.has_full_copy, "the full copy was under the prefix before"
    asyncio.run(one.begin_prefix_of_same_epoch())
    assert one.record.old_prefixes == (PREFIX,), "a prefix without files is not kept"


def test_an_epoch_that_was_named_late_is_noted_with_the_first_full_copy(store: Aged) -> None:
    one = lease(store, "one")
    take(one)
    first = ReplicaPrefix("epoch_p", None, "owner_one", 1)
    asyncio.run(one.begin_prefix(first, None))

    asyncio.run(one.note_full_copy(first, "epoch_of_the_file"))

    assert (one.record.current.epoch, one.record.has_full_copy) == ("epoch_of_the_file", True)


def test_a_version_that_was_watched_until_its_lease_ran_out_is_taken_whatever_the_stores_clock_says(
    store: Aged,
) -> None:
    holder = lease(store, "one", ttl_ms=5000)
    take(holder)
    watched = store.get(NAME)

    asyncio.run(lease(store, "two", ttl_ms=5000).take(run_out=watched))

    with pytest.raises(LeaseLost, match="host-two"):
        asyncio.run(holder.renew(newest_event_id=1))


def test_a_lease_that_was_renewed_since_it_was_watched_is_not_taken(store: Aged) -> None:
    holder = lease(store, "one", ttl_ms=5000)
    take(holder)
    watched = store.get(NAME)
    asyncio.run(holder.renew(newest_event_id=1))

    with pytest.raises(LeaseHeld):
        asyncio.run(lease(store, "two", ttl_ms=5000).take(run_out=watched))
