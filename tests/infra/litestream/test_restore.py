"""A missing file is restored whole, or nothing starts; a file goes on only if it is certainly the newest state."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from infra.litestream import local_state
from infra.litestream.lease import Lease, LeaseHeld
from infra.litestream.lease_owner import owner_of
from infra.litestream.prepare import Ready, Step, check_file, decide, prepare_replication
from infra.litestream.restored_files import FileRefused, HistoryFacts, ReplicaRefused, read_facts
from shared.core.errors import DatabaseRefused
from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import events
from shared.db.replica import lease_record
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.lease_record import LeaseRecord, ReplicaPrefix
from shared.db.replica.litestream_program import program
from shared.db.replica.object_store import open_store
from shared.db.replica.stored_objects import StoreUnreachable
from shared.roster.new_database import prepare_database
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.infra.processes import ROOT

NOW = 1_700_000_000_000
LEGACY = ReplicaPrefix("", None, "", 0)


class Machine:
    """A folder with a database and its own lease owner."""

    def __init__(self, folder: Path, url: str, ttl_ms: int = 60_000) -> None:
        folder.mkdir(exist_ok=True)
        self.database, self.url, self.ttl_ms = folder / "postroom.db", url, ttl_ms
        self.lease = self.new_lease()

    def new_lease(self) -> Lease:
        owner = owner_of(self.database.with_name("owner"), self.database)
        return Lease(open_store(self.url, ENVIRONMENT), owner, self.ttl_ms)

    def start(self, **options: object) -> Ready:
        """Start as a process does, with a lease that was not taken yet."""
        self.lease = self.new_lease()
        return asyncio.run(prepare_replication(self.database, self.url, self.lease, ENVIRONMENT, limit_s=30, **options))

    def work(self, ready: Ready, count: int) -> None:
        """Make the database if there is none, add events, replicate them, and note the full copy."""
        prepare_database(self.database)
        conn = open_connection(self.database)
        with transaction(conn):
            for _ in range(count):
                events.append(conn, "message_queued", now_ms=NOW)
        conn.close()
        command = [program(), "replicate", "-once", str(self.database), ready.url]
        subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
        facts = read_facts(self.database)
        asyncio.run(self.lease.note_full_copy(self.lease.record.current, facts.epoch))
        asyncio.run(self.lease.renew(newest_event_id=facts.newest_event_id))

    def stop(self) -> None:
        """Stop in good order."""
        local_state.mark_good_end(self.database)
        self.crash()

    def crash(self) -> None:
        """Die in mid-work. The lease stays ours all the same, so it is given back here."""
        asyncio.run(self.lease.release())

    @property
    def facts(self) -> tuple[str | None, int]:
        found = read_facts(self.database)
        return found.epoch, found.newest_event_id

    def lose_file(self) -> None:
        for path in self.database.parent.glob("postroom.db*"):
            path.unlink()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/replica"


@pytest.fixture
def one(tmp_path: Path, url: str) -> Machine:
    """A machine that has replicated three events, and was stopped."""
    machine = Machine(tmp_path / "one", url)
    machine.work(machine.start(), 3)
    machine.stop()
    return machine


def test_a_first_start_has_nothing_to_restore_and_a_prefix_of_its_own(tmp_path: Path, url: str) -> None:
    machine = Machine(tmp_path / "one", url)

    ready = machine.start()

    assert ready.step is Step.FIRST
    assert ready.url == f"{url}/{machine.lease.record.current.path}"
    assert not machine.database.exists()
    assert machine.start().url == ready.url, "a second look before the database is there changes nothing"
    prepare_database(machine.database)
    assert (machine.start().step, machine.start().url) == (Step.CONTINUE, ready.url)


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


def test_a_lost_file_comes_back_and_what_follows_is_a_new_epoch(one: Machine) -> None:
    before = one.lease.record.current
    one.lose_file()
    (one.database.parent / "postroom.db-wal").write_bytes(b"committed in another history")

    ready = one.start()

    after = one.lease.record.current
    assert ready.step is Step.RESTORE
    assert ready.txid
    assert one.facts == (after.epoch, 3)
    assert after.path == after.epoch != before.epoch
    assert one.lease.record.old_prefixes == (before,)
    assert lease_record.newest_prefix(one.lease.store, one.lease.record) == before, "until the new one has a copy"
    one.work(ready, 1)
    assert lease_record.newest_prefix(one.lease.store, one.lease.record) == one.lease.record.current
    one.stop()
    assert one.start().step is Step.CONTINUE


def test_a_start_that_died_during_a_restore_is_completed_by_the_next(one: Machine) -> None:
    before = one.lease.record.current
    one.lose_file()
    one.start()
    one.lose_file()  # as if it had died before it moved the file

    ready = one.start()

    assert ready.step is Step.RESTORE
    assert one.facts == (one.lease.record.current.epoch, 3)
    assert one.lease.record.old_prefixes == (before,), "the prefix without files is forgotten"


def test_an_empty_file_counts_as_no_database(one: Machine) -> None:
    one.lose_file()
    one.database.touch()

    assert one.start().step is Step.RESTORE
    assert one.facts[1] == 3


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
    assert two.facts[1] == 5


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


def test_a_replica_without_its_first_files_never_starts_an_empty_database(one: Machine, tmp_path: Path) -> None:
    one.work(one.start(), 1)
    one.stop()
    one.lose_file()
    for path in (tmp_path / "replica").rglob("*0000000000000001-*.ltx"):
        path.unlink()
    assert list((tmp_path / "replica").rglob("*.ltx")), "something is left of it"

    with pytest.raises(ReplicaRefused, match=r"can't be restored"):
        one.start()

    assert not one.database.exists()
    assert lease_record.read(one.lease.store).is_released, "and holds up no machine"


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


def test_replicate_alone_does_not_restore(one: Machine) -> None:
    """The functions may be running beside it already."""
    one.lose_file()
    with pytest.raises(FileRefused, match=r"run `python -m infra.restore`"):
        one.start(may_restore=False)


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


def test_the_replica_of_another_program_is_not_restored(tmp_path: Path, url: str) -> None:
    """A wrong POSTROOM_REPLICA_URL once gave another program's tables to our functions."""
    one = Machine(tmp_path / "one", url)
    ready = one.start()
    conn = apsw.Connection(str(one.database))
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("CREATE TABLE albums (id)")
    conn.close()
    subprocess.run([program(), "replicate", "-once", str(one.database), ready.url], env=ENVIRONMENT, check=True)
    asyncio.run(one.lease.note_full_copy(one.lease.record.current, "epoch_a1b2c3d4"))
    one.crash()
    one.lose_file()
    with pytest.raises(ReplicaRefused, match=r"is the database of another program.*'albums'.*POSTROOM_REPLICA_URL"):
        one.start()
    assert not list(one.database.parent.glob("postroom.db*"))


@pytest.mark.e2e
def test_restores_work_from_a_bucket_too(tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3") as port:
        machine = Machine(tmp_path / "one", f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{port}")
        machine.work(machine.start(), 3)
        machine.stop()
        assert machine.start().step is Step.CONTINUE
        machine.lose_file()
        ready = machine.start()
        assert ready.step is Step.RESTORE
        assert ready.url == f"s3://postroom-replica/db/{machine.facts[0]}?endpoint=http://127.0.0.1:{port}"
        machine.work(ready, 1)
        machine.stop()
        assert machine.start().step is Step.CONTINUE


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


def test_the_restore_program_waits_restores_copies_and_reports_errors(one: Machine, tmp_path: Path) -> None:
    def run(*options: str, **environment: str) -> tuple[int, dict[str, str]]:
        done = subprocess.run(
            [sys.executable, "-m", "infra.restore", *options],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "POSTROOM_REPLICA_URL": one.url, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}

    new = str(tmp_path / "two" / "postroom.db")
    assert run()[0] == 78
    one.start()
    code, said = run(POSTROOM_DB=new)
    assert (code, "another machine replicates" in said["reason"]) == (73, True)
    assert not Path(new).exists()
    code, said = run("--output", str(tmp_path / "copy.db"))
    assert (code, said["event"]) == (0, "restore.copied")
    assert read_facts(tmp_path / "copy.db").newest_event_id == 3
    one.ttl_ms = 1500
    held_at = time.monotonic()
    one.start()
    code, said = run("--wait", "60s", POSTROOM_DB=new)
    assert (code, said["step"]) == (0, "restore")
    assert time.monotonic() - held_at > 1.5
    code, said = run(POSTROOM_DB=str(one.database))
    assert code == 73, "the new one holds it"


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


def test_an_owner_file_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    first = owner_of(tmp_path / "owner", tmp_path / "x.db")
    (tmp_path / "owner").write_text("{}")
    assert owner_of(tmp_path / "owner", tmp_path / "x.db").id != first.id
