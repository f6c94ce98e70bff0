"""A missing file is restored whole, or nothing starts."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from infra.litestream.prepare import Step
from infra.litestream.restored_files import FileRefused, ReplicaRefused, read_facts
from shared.db.replica import lease_record
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.litestream_program import program
from shared.db.replica.object_store import open_store
from shared.roster.new_database import prepare_database
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.infra.litestream.machine import Machine
from tests.infra.processes import ROOT


def test_a_first_start_has_nothing_to_restore_and_a_prefix_of_its_own(tmp_path: Path, url: str) -> None:
    machine = Machine(tmp_path / "one", url)

    ready = machine.start()

    assert ready.step is Step.FIRST
    assert ready.url == f"{url}/{machine.lease.record.current.path}"
    assert not machine.database.exists()
    assert machine.start().url == ready.url, "a second look before the database is there changes nothing"
    prepare_database(machine.database)
    assert (machine.start().step, machine.start().url) == (Step.CONTINUE, ready.url)


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


def test_replicate_alone_does_not_restore(one: Machine) -> None:
    """The functions may be running beside it already."""
    one.lose_file()
    with pytest.raises(FileRefused, match=r"run `python -m infra.restore`"):
        one.start(may_restore=False)


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
