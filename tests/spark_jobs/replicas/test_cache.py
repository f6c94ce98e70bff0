"""Restored copies in a cache: shared, private, whole, and not for ever."""

import os
import subprocess
import sys
import time

import pytest

from spark_jobs import replicas
from tests.spark_jobs.replicas.copies import ROOT


def test_the_second_reader_restores_nothing(primary, tmp_path, cache):
    primary.receive(1)
    primary.replicate()
    pin, path = replicas.restore_pinned(primary.url, cache_dir=cache)
    inode = path.stat().st_ino
    (tmp_path / "replica").rename(tmp_path / "away")

    again = replicas.ensure_local(pin, cache)

    assert again == path
    assert again.stat().st_ino == inode


def test_of_many_readers_at_once_one_restores(primary, cache):
    primary.receive(1)
    primary.replicate()
    pin = replicas.resolve(primary.url)
    script = (
        "import logging, sys; from spark_jobs import replicas; logging.basicConfig(level='INFO')\n"
        "replicas.ensure_local(replicas.Pin(*sys.argv[1:4]), sys.argv[4])"
    )
    command = [sys.executable, "-c", script, pin.url, pin.txid, pin.timestamp, str(cache)]
    readers = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = "".join(reader.communicate(timeout=300)[1] for reader in readers)

    assert [reader.returncode for reader in readers] == [0] * 4, said
    assert said.count("replica.restored") == 1
    assert sorted(path.suffix for path in cache.iterdir() if path.suffix) == [".db"]


def test_cached_copies_are_private(primary, cache):
    primary.replicate()
    old = os.umask(0o022)
    try:
        _, path = replicas.restore_pinned(primary.url, cache_dir=cache)
    finally:
        os.umask(old)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cache_that_others_can_read_is_refused(primary, cache):
    primary.replicate()
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    with pytest.raises(replicas.ReplicaInvalid, match="chmod 700"):
        replicas.restore_pinned(primary.url, cache_dir=cache)


def test_the_least_recently_used_copy_goes_first(primary, cache):
    paths = []
    for _ in range(3):
        primary.receive(1)
        primary.replicate()
        pin = replicas.resolve(primary.url)
        paths.append(replicas.ensure_local(pin, cache, max_bytes=1 if len(paths) == 2 else 10**9))
        os.utime(paths[-1], (time.time() - 1000 * (2 - len(paths)),) * 2)
    assert [path.exists() for path in paths] == [False, True, True], "one used a moment ago stays, however full"


def test_a_copy_that_fails_the_quick_check_is_never_used(primary, cache):
    """Its stored files are whole; what they hold is a damaged database."""
    primary.receive(2000)
    primary.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with primary.path.open("r+b") as file:
        (root,) = primary.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'")[0]
        file.seek((root - 1) * 4096 + 3)
        file.write(b"\xff\xff")
    primary.replicate()
    said = r"failed SQLite's quick check \(.+\): read another position with txid or timestamp"
    with pytest.raises(replicas.RestoreFailed, match=said):
        replicas.restore_pinned(primary.url, cache_dir=cache)
    assert not [path for path in cache.iterdir() if path.suffix]


def test_a_damaged_replica_leaves_nothing_in_the_cache(primary, tmp_path, cache):
    primary.receive(10)
    primary.replicate()
    pin = replicas.resolve(primary.url)
    (stored,) = (tmp_path / "replica" / "ltx" / "0").iterdir()
    stored.write_bytes(stored.read_bytes()[:2000])
    with pytest.raises(replicas.RestoreFailed, match="litestream could not read file://"):
        replicas.ensure_local(pin, cache)
    assert not [path for path in cache.iterdir() if path.suffix]
