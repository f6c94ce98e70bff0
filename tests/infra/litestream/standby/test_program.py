"""``python -m infra.standby``: what it refuses, and with which exit code."""

import asyncio
import configparser
import os
import sys
from dataclasses import replace

import pytest

from infra.litestream.lease import Lease
from infra.litestream.lease_owner import LeaseOwner, owner_of
from infra.litestream.restore import exit_code
from infra.litestream.restored_files import FileRefused, read_facts
from infra.litestream.standby import program
from infra.litestream.standby.follower import Follower
from shared.core.errors import ConfigInvalid
from shared.db.replica import lease_record
from shared.db.replica.lease_record import NO_RECORD, ReplicaPrefix
from shared.db.replica.object_store import open_store
from shared.db.replica.stored_objects import ReplicaObject
from shared.roster.new_database import prepare_database
from tests.infra.processes import ROOT, Process

THERE = ReplicaPrefix("epoch_1", "epoch_1", "owner_them", 1)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The environment of a host whose replica another host holds the lease of."""
    url = f"file://{tmp_path}/replica"
    settings = {
        "POSTROOM_DB": str(tmp_path / "host" / "p.db"),
        "POSTROOM_REPLICA_URL": url,
        "POSTROOM_LITESTREAM_SOCKET": str(tmp_path / "l.sock"),
        "POSTROOM_REPLICA_LEASE": "5s",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    held = replace(NO_RECORD, owner="owner_them", token="t", host="host-1", ttl_ms=60_000, current=THERE)
    open_store(url, {}).put(lease_record.NAME, held.dump(), replacing=None)
    return tmp_path / "host" / "p.db"


def start(*words):
    return asyncio.run(program.run(program.parse(words)))


def test_a_file_that_another_host_has_gone_on_without_is_refused_at_the_start_and_unchanged(host):
    prepare_database(host)
    before = host.read_bytes()

    with pytest.raises(FileRefused, match="the replica's lease is with host-1") as refused:
        start()

    assert exit_code(refused.value) == 65
    assert host.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("POSTROOM_REPLICA_LEASE", "4s", "at least 5s for a pair of hosts"),
        ("POSTROOM_STANDBY_FOLLOW", "20ms", "from 100ms to 10s"),
        ("POSTROOM_REPLICA_RETENTION_MS", "soon", "POSTROOM_REPLICA_RETENTION_MS"),
        ("POSTROOM_LITESTREAM_SOCKET", "", "POSTROOM_LITESTREAM_SOCKET is not set"),
    ],
)
def test_a_wrong_setting_ends_the_start_before_anything_is_touched(host, monkeypatch, name, value, sentence):
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigInvalid, match=sentence) as refused:
        start()

    assert exit_code(refused.value) == 78
    assert not host.parent.exists()


@pytest.mark.e2e
@pytest.mark.parametrize("is_alive", [False, True], ids=["a reboot", "a clone of the disk"])
def test_a_file_is_set_aside_for_its_own_lease_only_when_the_holder_renews_it(host, is_alive):
    prepare_database(host)
    us = owner_of(host.with_name("p.db-owner"), host)
    facts = read_facts(host)
    held = replace(
        NO_RECORD, owner=us.id, token="before.1", host="host-1", ttl_ms=5000, newest_event_id=facts.newest_event_id,
        current=ReplicaPrefix("epoch_1", facts.epoch, us.id, 1),
    )  # fmt: skip
    store = open_store(os.environ["POSTROOM_REPLICA_URL"], {})
    there = store.get(lease_record.NAME)
    tag = store.put(lease_record.NAME, held.dump(), replacing=there.tag)
    started = Process(sys.executable, "-m", "infra.standby", "--set-aside", environment=dict(os.environ))
    try:
        started.wait_for("standby.own_lease")
        if is_alive:
            store.put(lease_record.NAME, replace(held, renewed_at=1).dump(), replacing=tag)
            started.wait_for("standby.set_aside")
        else:
            started.wait_for("replicate.begun")
        assert host.with_name("p.db.left-1").exists() is is_alive
        if not is_alive:
            there = lease_record.read(store)
            assert (there.owner, there.current.epoch) == (us.id, facts.epoch)
            assert there.current.path != "epoch_1"
    finally:
        started.close()


def test_a_head_start_that_was_in_vain_is_followed_by_a_pause(host, tmp_path, capfd):
    """Each copies the whole database to the bucket, and a holder with a slow bucket renews late again and again."""
    store = open_store(os.environ["POSTROOM_REPLICA_URL"], {})
    lease = Lease(store, LeaseOwner("owner_us", "host-2", str(host)), 5000)
    paired = program.PairedHost(host, os.environ["POSTROOM_REPLICA_URL"], lease, may_set_aside=False)
    paired.copies.kept = Follower(THERE, "file:///nowhere", tmp_path / "warm", {}, str)
    held = replace(NO_RECORD, owner="owner_them", ttl_ms=60_000, current=THERE)

    async def go():
        begun = []
        for renewed_s in (0.0, 40.0, 80.0, 120.0):
            seen = ReplicaObject(replace(held, renewed_at=int(renewed_s)).dump(), f"v{renewed_s}", 0.0)
            paired.watch = paired.watch.saw(seen, renewed_s)
            await paired.mind_head_start(renewed_s)  # renewed: what was begun is in vain
            await paired.mind_head_start(renewed_s + 35)  # overdue
            begun.append(capfd.readouterr().out.count("standby.head_start "))
        await paired.copies.close()
        return begun

    assert asyncio.run(go()) == [1, 0, 1, 0]


@pytest.mark.parametrize("name", ["postroom-host", "postroom-function@", "postroom-ticker"])
def test_systemd_never_gives_up_and_leaves_litestream_to_the_standby_program(name):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ROOT / "infra" / "systemd" / f"{name}.service")

    assert unit["Service"]["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "five ends in ten seconds would be the last"
    if name == "postroom-host":
        assert unit["Service"]["KillMode"] == "mixed", "a second SIGTERM cuts Litestream's last upload short"
    else:
        assert unit["Unit"]["BindsTo"] == unit["Unit"]["After"] == "postroom-host.service"
