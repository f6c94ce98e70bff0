"""A file goes on only if it is certainly the newest state; else its start is refused, or begins a new epoch."""

import asyncio
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from infra.litestream import local_state
from infra.litestream.lease import Lease, LeaseHeld
from infra.litestream.lease_owner import owner_of
from infra.litestream.prepare import Step, check_file, decide, events_missing, prepare_replication
from infra.litestream.restored_files import FileRefused, HistoryFacts
from shared.core.errors import DatabaseRefused
from shared.db.queue import epochs
from shared.db.replica import lease_record
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.lease_record import LeaseRecord, ReplicaPrefix
from shared.db.replica.litestream_program import program
from shared.db.replica.stored_objects import StoreUnreachable
from shared.roster.new_database import prepare_database
from tests.emulator.storage.test_s3_server import ENVIRONMENT
from tests.infra.litestream.machine import Machine

LEGACY = ReplicaPrefix("", None, "", 0)


def test_a_restart_goes_on_under_the_same_prefix(one: Machine) -> None:
    prefix = one.lease.record.current

    ready = one.start()

    assert (ready.step, one.lease.record.current) == (Step.CONTINUE, prefix)
    assert prefix.epoch == one.facts[0]


def test_after_a_bad_end_the_same_epoch_goes_on_under_a_new_prefix(one: Machine) -> None:
    one.work(one.start(), 1)
    before = one.lease.record.current
    local_state.remove_mark(one.database)
    one.crash()

    ready = one.start()

    after = one.lease.record
    assert (ready.step, ready.url) == (Step.AGAIN, f"{one.url}/{after.current.path}")
    assert (after.current.epoch, after.newest_event_id) == (before.epoch, 4) == one.facts
    assert (after.old_prefixes, after.has_full_copy) == ((before,), False)
    assert local_state.newest_txid(one.database) is None, "Litestream begins with a full copy"
    assert (one.start().step, one.lease.record.current) == (Step.CONTINUE, after.current), "nothing came there yet"
    local_state.remove_mark(one.database)
    assert one.start().step is Step.AGAIN, "now something may have"
    assert one.lease.record.old_prefixes == (before,)


def test_an_older_copy_is_refused_after_a_new_prefix_of_its_epoch_too(one: Machine, tmp_path: Path) -> None:
    shutil.copy(one.database, tmp_path / "old.db")
    one.work(one.start(), 1)
    local_state.remove_mark(one.database)
    assert one.start().step is Step.AGAIN
    one.crash()
    shutil.copy(tmp_path / "old.db", one.database)

    with pytest.raises(FileRefused, match="older copy"):
        one.start()


def test_another_machine_restores_and_the_first_one_s_file_is_refused_afterwards(
    one: Machine, tmp_path: Path, url: str
) -> None:
    two = Machine(tmp_path / "two", url)
    two.work(two.start(), 2)
    two.stop()
    there, before = two.lease.record, one.database.read_bytes()

    with pytest.raises(FileRefused, match="another machine took over"):
        one.start()

    assert one.database.read_bytes() == before
    assert lease_record.read(FolderStore(tmp_path / "replica")) == there, "refused before anything was written"
    assert two.facts[1] > 3 + epochs.STEP


@pytest.mark.parametrize("leaves_notes", [True, False])
def test_an_older_copy_of_the_file_is_noticed(one: Machine, tmp_path: Path, leaves_notes: bool) -> None:
    """The copy's epoch is right, but it lacks events that were replicated."""
    shutil.copy(one.database, tmp_path / "older.db")
    one.work(one.start(), 2)
    one.stop()
    one.lose_file()
    shutil.copy(tmp_path / "older.db", one.database)
    if not leaves_notes:
        shutil.rmtree(one.database.with_name(".postroom.db-litestream"))

    with pytest.raises(FileRefused, match=r"an older copy .* newest event is 3, and .* already replicated event 5"):
        one.start()

    one.lose_file()
    one.start()
    assert one.facts[1] == 5


def test_an_older_folder_is_compared_when_the_lease_can_not_decide(one: Machine, tmp_path: Path) -> None:
    """Events that came after the last renewal: Litestream's files tell what the lease record does not."""
    shutil.copytree(one.database.parent, tmp_path / "older")
    mark = one.lease.record.newest_event_id
    one.work(one.start(), 2)
    asyncio.run(one.lease.release(mark))
    shutil.rmtree(one.database.parent)
    shutil.copytree(tmp_path / "older", one.database.parent)

    with pytest.raises(FileRefused, match=r"not the newest state: .* up to event 3, the replica .* up to event 5"):
        one.start()


def test_keep_file_begins_a_new_epoch_from_the_file(one: Machine, tmp_path: Path, url: str) -> None:
    two = Machine(tmp_path / "two", url)
    two.work(two.start(), 2)
    two.stop()

    ready = one.start(keep_file=True)

    assert ready.step is Step.BEGIN
    assert one.facts == (one.lease.record.current.epoch, 3)
    assert one.lease.record.old_prefixes[-1] == two.lease.record.current, (
        "what only the replica has stays in its prefix"
    )


def test_a_file_that_was_moved_to_another_machine_goes_on_in_a_new_epoch(one: Machine, tmp_path: Path) -> None:
    one.database.parent.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tmp_path / "copied")
    copied = Machine(tmp_path / "copied", one.url)

    ready = copied.start()

    assert copied.lease.owner.id != one.lease.owner.id, "a copy of the owner's file is another owner"
    assert ready.step is Step.BEGIN
    assert copied.facts == (copied.lease.record.current.epoch, 3)
    assert local_state.newest_txid(copied.database) is None, "Litestream begins with a full copy"


def test_a_replica_from_before_there_were_epochs_moves_to_one(tmp_path: Path, url: str) -> None:
    old = Machine(tmp_path / "old", url)
    prepare_database(old.database)
    subprocess.run([program(), "replicate", "-once", str(old.database), url], env=ENVIRONMENT, check=True)
    epoch = old.facts[0]

    ready = Machine(tmp_path / "new", url).start()
    asyncio.run(Machine(tmp_path / "new", url).lease.take())  # the same owner, at once
    with pytest.raises(LeaseHeld):
        old.start()

    assert ready.step is Step.RESTORE
    fresh = Machine(tmp_path / "new", url)
    assert fresh.facts[0] != epoch
    assert ready.url == f"{url}/{fresh.facts[0]}"


def test_with_its_file_an_old_replica_is_compared_and_moves_too(tmp_path: Path, url: str) -> None:
    old = Machine(tmp_path / "old", url)
    prepare_database(old.database)
    subprocess.run([program(), "replicate", "-once", str(old.database), url], env=ENVIRONMENT, check=True)

    ready = old.start()

    assert ready.step is Step.BEGIN
    assert old.lease.record.old_prefixes == (LEGACY,)
    assert ready.url == f"{url}/{old.facts[0]}"


def test_an_emptied_bucket_begins_again_from_the_file(one: Machine, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "replica")
    ready = one.start()
    assert (ready.step, ready.is_started_over) == (Step.BEGIN, True)
    one.work(ready, 1)
    one.stop()
    shutil.rmtree(tmp_path / "replica" / one.lease.record.current.path)  # but not the lease
    ready = one.start()
    assert (ready.step, ready.is_started_over) == (Step.BEGIN, True)


def test_an_older_copy_is_refused_when_its_prefix_never_had_a_full_copy_too() -> None:
    there = LeaseRecord(
        "us",
        "tag",
        "host",
        "/data/postroom.db",
        0,
        0,
        0,
        False,
        ReplicaPrefix("epoch_2", "epoch_1", "us", 1),
        False,
        900,
        (),
    )
    check_file(HistoryFacts("epoch_1", 900), there, us="us")
    with pytest.raises(FileRefused, match="its newest event is 5"):
        check_file(HistoryFacts("epoch_1", 5), there, us="us")


class CutOff(FolderStore):
    """A store whose second write arrives without an answer, and which then fails every request."""

    writes = 0

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        self.writes += 1
        tag = super().put(name, body, replacing=replacing) if self.writes <= 2 else ""
        if self.writes >= 2:
            raise StoreUnreachable("no answer")
        return tag


def test_a_first_prefix_that_was_named_without_an_answer_accepts_its_own_file(tmp_path: Path, url: str) -> None:
    """A kill between the two writes does the same: the lease record has the new epoch, the file its first one."""
    machine, other = Machine(tmp_path / "one", url), Machine(tmp_path / "two", url)
    for each in (machine, other):
        prepare_database(each.database)
    lease = Lease(CutOff(tmp_path / "replica"), owner_of(tmp_path / "one" / "owner", machine.database), ttl_ms=60_000)
    with pytest.raises(StoreUnreachable):
        asyncio.run(prepare_replication(machine.database, url, lease, ENVIRONMENT, limit_s=30))
    named = lease_record.read(lease.store)
    assert named.current.epoch not in (None, machine.facts[0])

    os.utime(tmp_path / "replica" / lease_record.NAME, (0, 0))
    with pytest.raises(FileRefused, match="continued with epoch"):
        other.start()
    ready = machine.start()

    assert ready.step is Step.BEGIN
    assert machine.lease.record.current.epoch == machine.facts[0] != named.current.epoch
    machine.work(ready, 1)
    machine.stop()
    assert machine.start().step is Step.CONTINUE


def test_a_file_that_is_no_database_is_reported_in_one_sentence(one: Machine) -> None:
    one.database.write_bytes(b"no database " * 500)
    with pytest.raises(DatabaseRefused, match=r"is not a database that SQLite can read .* Move it away, and keep it"):
        one.start()


def test_a_foreign_trigger_ends_the_start(one: Machine) -> None:
    one.work(one.start(), 1)
    one.stop()
    conn = apsw.Connection(str(one.database))
    conn.execute("CREATE TRIGGER spy AFTER INSERT ON messages BEGIN SELECT 1; END")
    conn.close()
    with pytest.raises(DatabaseRefused, match=r"has the trigger 'spy', which Postroom did not make"):
        one.start()


HERE = ReplicaPrefix("epoch_2", "epoch_2", "us", 2)
BEFORE = ReplicaPrefix("epoch_1", "epoch_1", "them", 1)


@pytest.mark.parametrize(
    ("epoch", "current", "prefix", "has_full_copy", "is_certain", "step"),
    [
        ("epoch_2", HERE, HERE, True, True, Step.CONTINUE),
        ("epoch_2", HERE, HERE, True, False, Step.COMPARE),
        ("epoch_2", HERE, HERE, False, True, Step.CONTINUE),  # sent, and not noted
        ("epoch_2", BEFORE, HERE, False, False, Step.CONTINUE),  # named, and nothing sent
        ("epoch_1", BEFORE, HERE, False, False, Step.COMPARE),  # the file does not know of it yet
        ("epoch_1", BEFORE, BEFORE, True, True, Step.COMPARE),  # another's
        ("epoch_2", None, HERE, True, False, Step.BEGIN),  # the bucket was emptied
        ("epoch_1", LEGACY, LEGACY, False, True, Step.COMPARE),
    ],
)
def test_how_a_file_goes_on(
    epoch: str, current: ReplicaPrefix | None, prefix: ReplicaPrefix, has_full_copy: bool, is_certain: bool, step: Step
) -> None:
    there = LeaseRecord("us", "t", "h", "d", 0, 0, 0, False, prefix, has_full_copy, 0, (BEFORE,))
    assert decide(HistoryFacts(epoch, 5), there, current, us="us", is_certain=is_certain) is step


@pytest.mark.parametrize(
    ("epoch", "noted", "missing"),
    [
        ("epoch_2", 5, 0),
        ("epoch_2", 8, 3),
        ("epoch_2", 5 + epochs.STEP + 900, 1),  # the first start, which left ids out, and what followed it
        ("epoch_1", 8, 0),
    ],
)
def test_how_many_events_a_restore_lacks(epoch: str, noted: int, missing: int) -> None:
    there = LeaseRecord("us", "t", "h", "d", 0, 0, 0, False, HERE, True, noted, ())
    assert events_missing(HistoryFacts(epoch, 5), there) == missing


@pytest.mark.parametrize("is_given_back", [True, False])
def test_after_a_reboot_a_file_goes_on_in_its_prefix_only_if_the_lease_was_given_back(
    is_given_back: bool, tmp_path: Path, url: str
) -> None:
    """A lease that was not given back may be that of a clone of this disk, which may still write there."""
    machine = Machine(tmp_path / "one", url)
    machine.work(machine.start(), 3)
    local_state.mark_good_end(machine.database)
    if is_given_back:
        machine.crash()
    before = machine.lease.record
    lease = machine.new_lease()
    lease.owner = replace(lease.owner, place="after the reboot")
    os.utime(tmp_path / "replica" / lease_record.NAME, (0, 0))

    ready = asyncio.run(prepare_replication(machine.database, url, lease, ENVIRONMENT, limit_s=30))

    assert ready.step is (Step.CONTINUE if is_given_back else Step.AGAIN)
    assert (lease.record.current == before.current) is is_given_back
    assert lease.record.current.epoch == before.current.epoch
