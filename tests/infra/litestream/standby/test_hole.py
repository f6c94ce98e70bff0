"""An object is gone from the middle of the prefix, with two hosts of a pair as real processes on one S3."""

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from infra.litestream.restored_files import read_facts
from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import events
from shared.db.replica import lease_record
from shared.db.replica.object_store import open_store
from shared.roster.new_database import prepare_database
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.infra.processes import Process, until
from tests.liveness import freeze

pytestmark = [pytest.mark.e2e, pytest.mark.long]

NOW = 1_700_000_000_000


class Host:
    """``infra.standby`` in its own folder."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir()
        self.database = folder / "postroom.db"
        self.environment = {
            **ENVIRONMENT,
            "POSTROOM_DB": str(self.database),
            "POSTROOM_REPLICA_URL": url,
            "POSTROOM_LITESTREAM_SOCKET": str(folder / "l.sock"),
            "POSTROOM_REPLICA_LEASE": "5s",
        }

    def start(self) -> None:
        self.process = Process(sys.executable, "-m", "infra.standby", "--port", "0", environment=self.environment)

    def write(self, count: int) -> None:
        conn = open_connection(self.database)
        with transaction(conn):
            for _ in range(count):
                events.append(conn, "message_queued", now_ms=NOW)
        conn.close()

    def follower(self) -> int:
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(child)

    def status(self):
        (said,) = self.process.wait_for("standby.status")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{said['port']}/healthz", timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@pytest.fixture
def url(tmp_path):
    with s3_server(tmp_path / "s3") as port:
        yield f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{port}"


@pytest.fixture
def pair(tmp_path, url):
    hosts = Host(tmp_path / "one", url), Host(tmp_path / "two", url)
    prepare_database(hosts[0].database)
    yield hosts
    for host in hosts:
        host.process.close()


def begin(first, second, store):
    """Both hosts at work; the prefix that the first one writes to."""
    first.start()
    first.process.wait_for("replicate.begun")
    first.write(1)
    second.start()
    second.process.wait_for("standby.following")
    until(lambda: second.status()[0] == 200, "a standby that is well")
    return lease_record.read(store).current


def make_hole(first, second, store, prefix):
    """Three commits, of which the bucket loses the second before the standby has it."""
    files = prefix.key(store.newest_ltx_files)
    follower = second.follower()
    freeze(follower)
    for _ in range(3):
        known = len(store.names(files, limit=100))
        first.write(1)
        until(lambda known=known: len(store.names(files, limit=100)) > known, "a file for each commit")
    store.delete(store.names(files, limit=100)[-2])
    os.kill(follower, signal.SIGCONT)


def test_the_active_host_leaves_a_prefix_with_a_hole_and_the_standby_restores_anew(pair, url):
    first, second = pair
    store = open_store(url, ENVIRONMENT)
    before = begin(first, second, store)
    make_hole(first, second, store, before)
    until(lambda: second.status()[1]["copy"]["commits_behind"] > 0, "a word of it")
    first.write(1)

    (doubt,) = first.process.wait_for("replicate.doubtful")
    assert "non-contiguous" in doubt["reason"]
    first.process.wait_for("replicate.begun", 2)
    there = lease_record.read(store).current
    assert (there.path != before.path, there.epoch) == (True, before.epoch)
    following = second.process.wait_for("standby.following", 2)[1]
    assert there.path in following["replica"]
    until(lambda: second.status()[0] == 200, "a standby that is well again")

    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.end()
    second.process.wait_for("standby.active")
    assert read_facts(second.database).newest_event_id == 5
    assert not second.process.events("standby.restoring")


def test_a_takeover_at_a_hole_is_refused_and_nobody_starts_with_half_of_the_history(pair, url):
    first, second = pair
    store = open_store(url, ENVIRONMENT)
    before = begin(first, second, store)
    make_hole(first, second, store, before)
    os.killpg(first.process.pid, signal.SIGKILL)  # before Litestream compacts
    first.process.end()

    (refused,) = second.process.wait_for("standby.refused")

    assert "non-contiguous" in refused["reason"]
    assert second.process.end() == 65
    assert not second.database.exists()
    there = lease_record.read(store)
    assert (there.current, there.is_released) == (before, True), "the next host may try, with the object put back"
