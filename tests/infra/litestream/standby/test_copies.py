"""Warm copies of a replica in a folder, through the real Litestream."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from infra.litestream.restored_files import read_facts
from infra.litestream.standby.copies import WarmCopies
from infra.litestream.standby.decisions import FollowerProgress
from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import events
from shared.db.replica.lease_record import NO_RECORD, ReplicaPrefix
from shared.db.replica.litestream_program import program
from shared.db.replica.object_store import open_store
from shared.roster.new_database import prepare_database
from tests.liveness import freeze

pytestmark = pytest.mark.e2e

NOW = 1_700_000_000_000
PATIENCE_S = 60.0
FAST = {"PATH": os.environ["PATH"], "POSTROOM_STANDBY_FOLLOW": "100ms"}


def prefix(name):
    return ReplicaPrefix(name, name, "owner_them", NOW)


def record(current, *old):
    return replace(NO_RECORD, owner="owner_them", ttl_ms=5000, current=current, has_full_copy=True, old_prefixes=old)


@contextlib.contextmanager
def replicating(database, url):
    """Litestream replicates *database* to *url*."""
    config = database.with_suffix(".yml")
    config.write_text(
        f"dbs:\n  - path: {database}\n    monitor-interval: 50ms\n"
        f"    replica:\n      url: {url}\n      sync-interval: 50ms\n"
    )
    process = subprocess.Popen(
        [program(), "replicate", "-config", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def write(database, count=1):
    conn = open_connection(database)
    with transaction(conn):
        for _ in range(count):
            events.append(conn, "message_queued", now_ms=NOW)
    conn.close()


async def until(what, look):
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


@pytest.fixture
def first(tmp_path):
    database = tmp_path / "one" / "p.db"
    database.parent.mkdir()
    prepare_database(database)
    return database


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/replica"


@pytest.fixture
def run(tmp_path, url):
    """Runs a test with copies that are closed at the end, and the names of what they reported."""

    def running(test, **options):
        async def go():
            said = []
            store = open_store(url, {})
            copies = WarmCopies(
                url, store, tmp_path / "warm", FAST, lambda name, **facts: said.append((name, facts)), str, **options
            )
            try:
                await test(copies, said)
            finally:
                await copies.close()
            assert not (tmp_path / "warm").exists()

        asyncio.run(go())

    return running


def test_a_copy_is_handed_over_with_every_commit_that_is_in_the_bucket(run, first, url, tmp_path):
    target = tmp_path / "taken.db"

    async def go(copies, said):
        with replicating(first, f"{url}/epoch_1"):
            copies.record = record(prefix("epoch_1"))
            copies.start()
            await until("a copy", lambda: copies.kept)
            write(first, 25)
        assert await copies.hand_over(prefix("epoch_1"), target) == copies.kept.txid
        assert [name for name, _ in said[-2:]] == ["standby.following", "standby.handed_over"]

    run(go)

    assert read_facts(target).newest_event_id == 25


@pytest.mark.long
def test_the_old_copy_stays_until_the_copy_of_the_new_prefix_is_whole(run, first, url):
    async def go(copies, said):
        copies.record = record(prefix("epoch_1"))
        with replicating(first, f"{url}/epoch_1"):
            copies.start()
            await until("a copy", lambda: copies.kept)
        old = copies.kept
        copies.record = record(prefix("epoch_2"), prefix("epoch_1"))  # and nothing is there yet
        await until("another follower", lambda: copies.coming)
        assert copies.kept is old
        assert old.copy.exists()
        (first.parent / ".p.db-litestream").rename(first.parent / "state-of-epoch-1")
        with replicating(first, f"{url}/epoch_2"):
            await until("the new copy", lambda: copies.kept is not old)
            assert copies.kept.prefix.path == "epoch_2"
            await until("the end of the old one", lambda: not old.copy.exists())

    run(go)


@pytest.mark.long
def test_of_a_follower_that_stands_still_the_log_says_so_and_another_one_restores_anew(run, first, url, tmp_path):
    async def go(copies, said):
        copies.record = record(prefix("epoch_1"))
        with replicating(first, f"{url}/epoch_1"):
            copies.start()
            await until("a copy", lambda: copies.kept)
            old = copies.kept
            freeze(old.pid)
            write(first, 3)
            await until("another copy", lambda: copies.kept is not old)
        (reason,) = [facts["reason"] for name, facts in said if name == "standby.follower_lost"]
        assert "while the bucket has" in reason
        await until("the end of the old one", lambda: old.pid is None)
        assert await copies.hand_over(prefix("epoch_1"), tmp_path / "taken.db")

    run(go, still_s=0.2)

    assert read_facts(tmp_path / "taken.db").newest_event_id == 3


def test_a_follower_that_had_nothing_to_do_gets_its_time_to_catch_up_at_a_takeover(run, first, url, tmp_path):
    """A planned move: the last commits reach the bucket a moment before the lease is given back."""
    target = tmp_path / "taken.db"

    async def go(copies, said):
        with replicating(first, f"{url}/epoch_1"):
            copies.record = record(prefix("epoch_1"))
            copies.start()
            await until("a copy", lambda: copies.kept)
            freeze(copies.kept.pid)
            write(first, 2)
        asyncio.get_running_loop().call_later(0.3, os.kill, copies.kept.pid, signal.SIGCONT)
        copies.kept.progress = FollowerProgress(copies.kept.txid, copies.kept.txid)  # it last moved long ago
        target.with_name("taken.db-wal").write_bytes(b"of a takeover that died")
        assert await copies.hand_over(prefix("epoch_1"), target), said

    run(go)

    assert read_facts(target).newest_event_id == 2
    assert not target.with_name("taken.db-wal").exists() or target.with_name("taken.db-wal").stat().st_size == 0


def test_without_a_copy_of_the_prefix_that_counts_nothing_is_handed_over(run, first, url, tmp_path):
    async def go(copies, said):
        copies.record = record(prefix("epoch_1"))
        with replicating(first, f"{url}/epoch_1"):
            copies.start()
            await until("a copy", lambda: copies.kept)
        assert copies.is_usable
        copies.record = record(prefix("epoch_2"), prefix("epoch_1"))  # and no file of it can be read
        await until("another follower", lambda: copies.coming)
        assert not copies.is_usable
        assert await copies.hand_over(prefix("epoch_2"), tmp_path / "taken.db") is None
        assert said[-1][0] == "standby.restoring"

    run(go)

    assert not (tmp_path / "taken.db").exists()


@pytest.mark.long
def test_a_follower_at_a_hole_in_the_bucket_is_noticed_and_the_next_prefix_is_restored_anew(run, first, url, tmp_path):
    """An object that is gone from the middle: neither a follower nor a restore comes past it."""
    level_0 = tmp_path / "replica" / "epoch_1" / "ltx" / "0"

    async def go(copies, said):
        copies.record = record(prefix("epoch_1"))
        with replicating(first, f"{url}/epoch_1"):
            copies.start()
            await until("a copy", lambda: copies.kept)
            old = copies.kept
            freeze(old.pid)
            for _ in range(3):
                there = len(list(level_0.iterdir()))
                write(first)
                await until("a file for each commit", lambda there=there: len(list(level_0.iterdir())) > there)
        # Litestream has ended: it merges no files meanwhile.
        gone = sorted(level_0.iterdir())[-2].name[:16]
        for file in level_0.parent.rglob("*.ltx"):  # a larger file may have it too
            least, _, most = file.stem.partition("-")
            if least <= gone <= most:
                file.unlink()
        before = len(said)
        os.kill(old.pid, signal.SIGCONT)

        await until("a word of it", lambda: len(said) >= before + 2)
        (lost, why), (refused, reason) = said[before : before + 2]
        assert (lost, refused) == ("standby.follower_lost", "standby.not_following")
        assert "while the bucket has" in why["reason"]
        assert "non-contiguous" in reason["reason"]
        assert copies.stuck == reason["reason"]
        assert copies.kept is old, "half a copy is more than none"
        copies.record = record(prefix("epoch_2"), prefix("epoch_1"))
        (first.parent / ".p.db-litestream").rename(first.parent / "state-of-epoch-1")
        with replicating(first, f"{url}/epoch_2"):
            await until("a copy of the new prefix", lambda: copies.kept is not old)
        assert copies.stuck is None
        assert await copies.hand_over(prefix("epoch_2"), tmp_path / "taken.db")

    run(go, still_s=0.2)

    assert read_facts(tmp_path / "taken.db").newest_event_id == 3
