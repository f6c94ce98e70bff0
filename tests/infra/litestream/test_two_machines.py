"""Two machines on one bucket, as real processes: never two histories in one prefix, whatever a machine believes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.litestream.restored_files import read_facts
from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import events
from shared.db.replica import lease_record
from shared.db.replica.object_store import ObjectStore, open_store
from shared.roster.new_database import prepare_database
from spark_jobs import replicas
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.infra.processes import ROOT, Process, until
from tests.liveness import freeze

pytestmark = [pytest.mark.e2e, pytest.mark.long]

NOW = 1_700_000_000_000
LEASE_S = 5  # longer than a busy machine lets its holder wait
LATER = timedelta(seconds=1.1)


class Machine:
    """``infra.restore`` and then ``infra.replicate``, in its own folder."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir()
        self.database, self.url = folder / "postroom.db", url
        self.environment = {
            **ENVIRONMENT,
            "POSTROOM_DB": str(self.database),
            "POSTROOM_REPLICA_URL": url,
            "POSTROOM_LITESTREAM_SOCKET": str(folder / "litestream.sock"),
            "POSTROOM_REPLICA_LEASE": f"{LEASE_S}s",
        }
        self.supervisor: Process | None = None

    def restore(self, *options: str) -> tuple[int, dict[str, Any]]:
        """The exit code, and the last log line."""
        done = subprocess.run(
            [sys.executable, "-m", "infra.restore", *options],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    def replicate(self) -> Process:
        prepare_database(self.database)
        if self.supervisor is not None:
            self.supervisor.close()
        self.supervisor = Process(sys.executable, "-m", "infra.replicate", environment=self.environment)
        self.supervisor.wait_for("replicate.started")
        return self.supervisor

    def write(self, count: int) -> None:
        conn = open_connection(self.database)
        with transaction(conn):
            for _ in range(count):
                events.append(conn, "message_queued", now_ms=NOW)
        conn.close()

    @property
    def epoch(self) -> str | None:
        return read_facts(self.database).epoch

    def litestream(self) -> int:
        assert self.supervisor is not None
        (child,) = Path(f"/proc/{self.supervisor.pid}/task/{self.supervisor.pid}/children").read_text().split()
        return int(child)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with s3_server(tmp_path / "s3") as port:
        yield f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{port}"


@pytest.fixture
def machines(tmp_path: Path, url: str) -> Iterator[tuple[Machine, Machine]]:
    one, two = Machine(tmp_path / "one", url), Machine(tmp_path / "two", url)
    yield one, two
    for machine in (one, two):
        if machine.supervisor is not None:
            machine.supervisor.close()


def clone_disk(folder: Path, clone: Path) -> None:
    """Copy a machine's folder as a snapshot of its disk does: the owner file there says its own inode."""
    shutil.copytree(folder, clone, dirs_exist_ok=True)
    owner = clone / "postroom.db-owner"
    owner.write_text(json.dumps({**json.loads(owner.read_text()), "inode": owner.stat().st_ino}))


def marks(url: str, store: ObjectStore, cache: Path) -> tuple[str, int]:
    """The epoch, and how many events were written, as a reader finds them."""
    pin, path = replicas.restore_pinned(url, cache_dir=cache)
    there = lease_record.read(store)
    assert there is not None
    return pin.epoch, written_in(path)


def written_in(path: Path) -> int:
    """How many events ``Machine.write`` wrote there. Each epoch begins with an event of its own."""
    import apsw

    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    conn = apsw.Connection(f"file:{path}?immutable=1", flags=flags)
    return int(conn.execute("SELECT count(*) FROM events WHERE type = 'message_queued'").get)


def began(store: ObjectStore) -> lease_record.LeaseRecord:
    """The lease record, when its prefix has a full copy."""

    def look() -> lease_record.LeaseRecord | None:
        there = lease_record.read(store)
        return there if there and there.has_full_copy else None

    found: lease_record.LeaseRecord = until(look, "the prefix to have a full copy")
    return found


def test_a_second_machine_takes_over_after_the_lease_and_the_first_is_fenced(
    machines: tuple[Machine, Machine], url: str, tmp_path: Path
) -> None:
    one, two = machines
    store, cache = open_store(url, ENVIRONMENT), tmp_path / "cache"
    assert one.restore()[1]["step"] == "first"
    one.replicate()
    one.write(3)
    first = began(store).current
    until(lambda: marks(url, store, cache) == (first.path, 3), "the rows in the bucket")

    code, said = two.restore()
    assert code == 73
    assert "another machine replicates to this replica" in said["reason"]
    assert not two.database.exists()
    assert lease_record.read(store).owner == first.writer

    freeze(one.supervisor.pid)  # it can't renew, and Litestream goes on below it
    code, said = two.restore("--wait", "60s")
    assert (code, said["step"]) == (0, "restore")
    assert marks(url, store, cache) == (first.path, 3), "the state is the old one until the new has a copy"
    one.write(5)
    two.replicate()
    two.write(1)
    second = began(store).current
    assert second.path == second.epoch == two.epoch != first.epoch
    until(lambda: marks(url, store, cache) == (second.path, 4), "the rows in the bucket")

    child = one.litestream()
    os.kill(one.supervisor.pid, signal.SIGCONT)
    (fenced,) = one.supervisor.wait_for("replicate.fenced")
    assert f"{two.database}" in fenced["reason"]
    assert one.supervisor.end() == 73
    assert not Path(f"/proc/{child}").exists(), "Litestream is gone with it"
    two.write(1)
    until(lambda: marks(url, store, cache) == (second.path, 5), "the rows in the bucket")

    # The first one's file is another history now, also when the second one has stopped.
    assert one.restore()[0] == 73
    assert two.supervisor.stop(signal.SIGTERM)[0] == 0
    code, said = one.restore()
    assert code == 65
    assert "another machine took over" in said["reason"]
    assert "--keep-file" in said["to_go_on_from_the_file"]
    assert marks(url, store, cache) == (second.path, 5)
    shutil.rmtree(one.database.parent)
    one.database.parent.mkdir()
    assert one.restore()[1]["step"] == "restore"
    assert written_in(one.database) == 5


def test_after_a_kill_of_everything_the_same_machine_starts_at_once(
    machines: tuple[Machine, Machine], url: str
) -> None:
    one, _ = machines
    one.environment["POSTROOM_REPLICA_LEASE"] = "10m"
    one.restore()
    one.replicate()
    one.write(2)
    prefix = began(open_store(url, ENVIRONMENT)).current
    child = one.litestream()
    one.supervisor.close()
    until(lambda: not Path(f"/proc/{child}").exists(), "the end of Litestream")

    assert one.restore()[1]["step"] == "again"
    one.replicate()

    there = began(open_store(url, ENVIRONMENT))
    assert there.current.path != prefix.path, "a full copy, because the files sent last may lack something"
    assert (there.current.epoch, there.old_prefixes) == (prefix.epoch, (prefix,)), "of the same history"


def test_of_two_clones_of_one_disk_only_one_holds_the_lease(
    machines: tuple[Machine, Machine], url: str, tmp_path: Path
) -> None:
    one, clone = machines
    store = open_store(url, ENVIRONMENT)
    one.restore()
    one.replicate()
    one.write(3)
    first = began(store).current
    assert one.supervisor.stop(signal.SIGTERM)[0] == 0
    clone_disk(one.database.parent, clone.database.parent)
    assert one.restore()[1]["step"] == "continue"
    one.replicate()
    until(lambda: not lease_record.read(store).is_released, "the lease")

    code, said = clone.restore()
    assert code == 73
    assert "It has this machine's owner id: it is a clone of this disk" in said["reason"]

    freeze(one.supervisor.pid)  # Litestream goes on below it, under its prefix
    code, said = clone.restore("--wait", "60s")
    assert (code, said["step"]) == (0, "begin")
    clone.replicate()
    second = began(store).current
    assert second.writer == first.writer
    assert second.path != first.path, "the one that is frozen may still write to its own"
    os.kill(one.supervisor.pid, signal.SIGCONT)
    one.supervisor.wait_for("replicate.fenced")
    assert one.supervisor.end() == 73


def test_a_second_supervisor_on_one_machine_is_refused(machines: tuple[Machine, Machine], url: str) -> None:
    one, _ = machines
    one.restore()
    one.replicate()
    began(open_store(url, ENVIRONMENT))
    second = Process(sys.executable, "-m", "infra.replicate", environment=one.environment)
    try:
        (refused,) = second.wait_for("replicate.refused")
        assert "another process of this machine" in refused["reason"]
        assert second.end() == 73
    finally:
        second.close()
    assert one.supervisor.stop(signal.SIGTERM)[0] == 0


def test_readers_find_the_state_of_an_instant_in_the_epoch_of_that_instant(
    machines: tuple[Machine, Machine], url: str, tmp_path: Path
) -> None:
    one, two = machines
    store, cache = open_store(url, ENVIRONMENT), tmp_path / "cache"
    one.restore()
    one.replicate()
    one.write(3)
    first = began(store).current
    until(lambda: marks(url, store, cache) == (first.path, 3), "the rows in the bucket")
    old = replicas.resolve(url)
    assert one.supervisor.stop(signal.SIGTERM)[0] == 0
    last = datetime.fromisoformat(old.timestamp)
    until(
        lambda: datetime.now(UTC) > last + timedelta(seconds=4),
        "two epochs that lie seconds apart, for stores report times in whole ones",
    )
    assert two.restore()[1]["step"] == "restore"
    two.replicate()
    two.write(1)
    second = began(store).current
    until(lambda: marks(url, store, cache) == (second.path, 4), "the rows in the bucket")

    pin = replicas.resolve(url)
    assert pin.epoch == second.path
    assert replicas.Pin.at(url, pin.position) == pin
    assert pin.source.startswith(f"s3://postroom-replica/db/{second.path}?")
    assert written_in(replicas.ensure_local(old, cache)) == 3, "a pin stays, whichever machine goes on"
    assert replicas.resolve(old.source).txid == old.txid, "a prefix is an URL too"
    between = datetime.fromtimestamp((second.began_at - 1) / 1000, UTC)
    assert replicas.resolve(url, timestamp=between).epoch == first.path
    early = replace(second, began_at=second.began_at - 2000)  # its first copy took two seconds
    assert two.supervisor.stop(signal.SIGTERM)[0] == 0
    written = store.get(lease_record.NAME)
    assert written is not None
    store.put(lease_record.NAME, replace(began(store), current=early).dump(), replacing=written.tag)
    at_once = datetime.fromtimestamp((early.began_at + 1) / 1000, UTC)
    assert replicas.resolve(url, timestamp=at_once).epoch == first.path, "the new one had nothing yet"


def test_an_earlier_moment_can_be_continued_from(machines: tuple[Machine, Machine], url: str, tmp_path: Path) -> None:
    """The steps of infra/README.md: look at a copy, keep it, replicate it; then other machines restore it."""
    one, two = machines
    store = open_store(url, ENVIRONMENT)
    one.restore()
    one.replicate()
    one.write(3)
    first = began(store).current
    until(lambda: marks(url, store, tmp_path / "cache") == (first.path, 3), "the rows in the bucket")
    assert one.supervisor.stop(signal.SIGTERM)[0] == 0
    instant = datetime.now(UTC) + timedelta(seconds=1)
    until(
        lambda: datetime.now(UTC) > instant + LATER,
        "two epochs that lie seconds apart, for stores report times in whole ones",
    )
    one.restore()
    one.replicate()
    one.write(2)
    until(lambda: marks(url, store, tmp_path / "cache") == (first.path, 5), "the rows in the bucket")
    one.supervisor.stop(signal.SIGTERM)

    before = tmp_path / "two" / "postroom.db"
    code, said = two.restore("--timestamp", instant.isoformat(), "--output", str(before))
    assert code == 0, said
    assert written_in(before) == 3
    assert two.restore()[0] == 65, "an older copy"
    assert two.restore("--keep-file")[1]["step"] == "begin"
    two.replicate().wait_for("replicate.begun")
    assert two.supervisor.stop(signal.SIGINT)[0] == 0
    shutil.rmtree(one.database.parent)
    one.database.parent.mkdir()
    assert one.restore()[1]["step"] == "restore"
    assert written_in(one.database) == 3
    there = lease_record.read(store)
    assert there.current.path == one.epoch
    assert there.old_prefixes[0] == first, "the history that was left stays"
