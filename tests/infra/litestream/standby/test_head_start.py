"""A full copy that begins before the lease has run out counts only if nothing was missed, and leaves nothing behind."""

import asyncio
import os
from pathlib import Path

import pytest

from infra.litestream.lease import Lease
from infra.litestream.lease_owner import LeaseOwner
from infra.litestream.restored_files import read_facts
from infra.litestream.standby.bucket_position import newest_position
from infra.litestream.standby.follower import Follower
from infra.litestream.standby.head_start import HeadStart, clear_unconfirmed, mark_of
from shared.db.replica import lease_record
from shared.db.replica.lease_record import NAME
from shared.db.replica.object_store import open_store
from tests.infra.litestream.standby.test_copies import FAST, first, prefix, record, replicating, until, url, write

__all__ = ["first", "url"]  # fixtures

AWAY = {"PATH": os.environ["PATH"]}


@pytest.fixture
def database(tmp_path):
    (tmp_path / "two").mkdir()
    return tmp_path / "two" / "p.db"


async def send(database, url, count):
    """Litestream brings *count* more events to the first prefix."""
    store = open_store(url, {})

    def newest():
        return newest_position(store, prefix("epoch_1"), "")

    write(database, count)
    before = newest()
    with replicating(database, f"{url}/epoch_1"):
        await until("the events in the bucket", lambda: newest() > before)


def settings_of(process):
    return Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")


@pytest.fixture
def run(tmp_path, url, first, database):
    """Runs a test with a follower of a replica that another host has left with two events, and a head start on it."""

    def running(test):
        async def go():
            store = open_store(url, {})
            store.put(NAME, record(prefix("epoch_1")).dump(), replacing=None)
            lease = Lease(store, LeaseOwner("owner_us", "host-2", str(database)), 5000)
            follower = Follower(prefix("epoch_1"), f"{url}/epoch_1", tmp_path / "warm", FAST, str)
            control = tmp_path / "l.sock"
            environment = AWAY | {"POSTROOM_DB": str(database), "POSTROOM_LITESTREAM_SOCKET": str(control)}
            await send(first, url, 2)
            await follower.start()
            head = HeadStart(database, url, control, lease, follower)
            try:
                await until("a copy", lambda: follower.txid)
                assert await head.begin(environment)
                assert mark_of(database).exists()
                await test(head, store)
            finally:
                await follower.discard()
                await head.abandon()

        asyncio.run(go())

    return running


@pytest.mark.e2e
def test_a_clone_that_lacks_nothing_becomes_the_database_and_the_record_names_its_prefix(run, database):
    async def go(head, store):
        ready = await head.confirm(store.get(NAME))
        assert ready.url.endswith(head.prefix.path)
        assert b"POSTROOM_REPLICA_INTERVAL=100ms" in settings_of(head.process), "it goes on, set as every other"
        there = lease_record.read(store)
        assert (there.owner, there.current) == ("owner_us", head.prefix)
        assert there.old_prefixes == (prefix("epoch_1"),), "until its full copy is known, restores take the one before"

    run(go)

    facts = read_facts(database)
    assert facts.newest_event_id == 2
    assert facts.epoch.startswith("epoch_")
    assert not mark_of(database).exists()


@pytest.mark.e2e
def test_a_clone_that_lacks_a_commit_of_the_other_host_is_not_gone_on_from(run, first, url, database):
    async def go(head, store):
        await send(first, url, 1)
        half = database.with_name("p.db.restoring")
        half.write_bytes(b"of a clone for which the disk had no room")
        assert await head.confirm(store.get(NAME)) is None
        assert lease_record.read(store).current == prefix("epoch_1")
        await head.abandon()
        assert store.first(head.prefix.key("")) is None, "what was copied is gone"
        assert not half.exists()

    run(go)

    assert not database.exists()
    assert not mark_of(database).exists()


def test_a_clone_that_a_crash_has_left_is_removed_and_a_database_without_the_mark_stays(database):
    database.write_text("rows")
    assert not clear_unconfirmed(database, record(prefix("epoch_1")))
    assert database.exists()

    mark_of(database).write_text("epoch_2")
    assert clear_unconfirmed(database, record(prefix("epoch_1")))
    assert not database.exists()
    assert not mark_of(database).exists()


def test_a_crash_right_after_the_record_named_the_clone_leaves_the_database(database):
    database.write_text("rows")
    mark_of(database).write_text("epoch_2")

    assert not clear_unconfirmed(database, record(prefix("epoch_2")))

    assert database.exists()
    assert not mark_of(database).exists()
