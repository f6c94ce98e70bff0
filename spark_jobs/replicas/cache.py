"""Restored copies of pinned positions, in a private cache that readers on one host share.

A cached file never changes, so readers may open it with ``immutable=1``. It holds people's messages: 0600 in 0700.
"""

import fcntl
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import apsw

from shared.core.errors import PermanentError
from shared.db.engine.connection import scalar
from shared.db.engine.owner_only import make_folder
from shared.db.replica import lease_record
from shared.db.replica.litestream_program import restore_command
from shared.db.replica.positions.errors import PositionMissing, ReplicaInvalid, ReplicaMissing, RestoreFailed
from shared.db.replica.positions.litestream import ask_store, refusal, run, stored_files
from shared.db.replica.positions.pins import Pin, no_such_txid, resolve
from shared.db.replica.positions.urls import check_url, shown
from spark_jobs.seconds import counted

CACHE_BYTES = 10 * 2**30
CACHE_DAYS = 7
RESTORE_SECONDS = 3600.0

_log = logging.getLogger("postroom.replicas")
_SETTLED_SECONDS = 600.0  # a copy used more recently than this is never evicted
_LOCKS = 64


def ensure_local(pin: Pin, cache_dir: str | Path | None = None, *, max_bytes: int = CACHE_BYTES) -> Path:
    """The restored database file of *pin*, which never changes. Restores it unless this host has it already.

    Any number of processes may call it: one restores, the others wait for it. Beyond *max_bytes* the copy that was read
    least recently is evicted; after a week without a reader every copy is.

    Raises:
        PositionMissing: the replica has compacted this position away since it was pinned; resolve again.
        ReplicaInvalid: the cache folder belongs to another user, or other users can read it.
        ReplicaMissing, ReplicaUnreachable, RestoreFailed, LitestreamMissing
    """
    check_url(pin.url)
    cache = _private_folder(Path(cache_dir) if cache_dir is not None else default_cache())
    path = cache / f"{pin.key}.db"
    if _touch(path):
        return path
    with _locked(cache / f"lock-{int(pin.key[:8], 16) % _LOCKS:02d}"):
        if _touch(path):
            return path
        _restore(pin, path)
        _evict(cache, keep=path, max_bytes=max_bytes)
    return path


def drop_idle(pin: Pin, cache_dir: str | Path | None = None, *, idle_seconds: float) -> bool:
    """Delete the copy of *pin* if nobody has begun to read it for so long; whether it is gone."""
    path = Path(cache_dir if cache_dir is not None else default_cache()).expanduser().absolute() / f"{pin.key}.db"
    try:
        is_idle = time.time() - path.stat().st_mtime >= idle_seconds
    except FileNotFoundError:
        return True
    if is_idle:
        path.unlink(missing_ok=True)
    return is_idle


def restore_pinned(
    url: str,
    *,
    txid: str | None = None,
    timestamp: str | datetime | None = None,
    epoch: str | None = None,
    cache_dir: str | Path | None = None,
) -> tuple[Pin, Path]:
    """:func:`resolve` and :func:`ensure_local`, once more if the position was compacted away in between."""
    with counted("restore"):
        pin = resolve(url, txid=txid, timestamp=timestamp, epoch=epoch)
        try:
            return pin, ensure_local(pin, cache_dir)
        except PositionMissing:
            pin = resolve(url, txid=txid, timestamp=timestamp, epoch=epoch)
            return pin, ensure_local(pin, cache_dir)


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/postroom/replicas``, else under ``~/.cache``."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "postroom" / "replicas"


def _restore(pin: Pin, path: Path) -> None:
    """Write *path* whole or not at all."""
    ask_store(pin.url, lambda store: store.get(lease_record.NAME))
    started = time.monotonic()
    part = path.with_name(f"{pin.key}.{secrets.token_hex(4)}.part")
    try:
        command = restore_command(pin.source, part, "-txid", pin.txid, check="none")
        done = run(pin.source, command, timeout_s=RESTORE_SECONDS)
        if done.returncode:
            raise refusal(pin.source, done.stderr)
        if not part.exists():
            raise _gone(pin)
        part.chmod(0o600)
        _check(pin, part)
        part.replace(path)
    finally:
        for left in path.parent.glob(part.name + "*"):
            left.unlink(missing_ok=True)
    _log.info(
        "replica.restored txid=%s bytes=%d seconds=%.1f", pin.txid, path.stat().st_size, time.monotonic() - started
    )


def _check(pin: Pin, copy: Path) -> None:
    """SQLite's quick check, by the SQLite of this process: that of ``litestream`` is a translation and takes three
    times as long.

    Raises:
        RestoreFailed: the stored files are whole, and the database in them is damaged.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    conn = apsw.Connection(f"file:{quote(str(copy))}?mode=ro&immutable=1", flags=flags)
    try:
        conn.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        found = " ".join(str(scalar(conn, "PRAGMA quick_check(1)")).split())
    except apsw.Error as error:
        found = str(error)
    finally:
        conn.close()
    if found != "ok":
        raise RestoreFailed(
            f"litestream could not read {shown(pin.source)} as a whole database: position {pin.txid} of "
            f"{pin.timestamp} failed SQLite's quick check ({found[:400]}): read another position with txid or "
            "timestamp, and run python -m infra.verify"
        )


def _gone(pin: Pin) -> PermanentError:
    """The error for a pinned position that is there no more: merged into a later one, or deleted with all others."""
    if stored_files(pin.source):
        return no_such_txid(pin.source, pin.txid)
    return ReplicaMissing(
        f"the replica {shown(pin.source)} is gone; position {pin.txid} of {pin.timestamp} was there when this job "
        "began: somebody deleted the replica, or its old epoch; start the job again at a position that exists"
    )


def _private_folder(folder: Path) -> Path:
    folder = folder.expanduser().absolute()
    make_folder(folder)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise ReplicaInvalid(f"the cache folder {folder} belongs to another user: name another folder with cache_dir")
    if found.st_mode & 0o077:
        raise ReplicaInvalid(
            f"other users can read the cache folder {folder}: run chmod 700 {folder}, or name another with cache_dir"
        )
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file, after waiting for it; the kernel drops the lock with its holder."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _touch(path: Path) -> bool:
    """Note that *path* is in use; False if it is missing."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _evict(cache: Path, *, keep: Path, max_bytes: int) -> None:
    """Delete copies: those unused for a week, then the least recently used beyond *max_bytes*. Open files stay
    readable."""
    now = time.time()
    copies = []
    for path in (*cache.glob("*.db"), *cache.glob("*.part*")):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        copies.append((found.st_mtime, found.st_size, path))
    total = sum(size for _, size, _ in copies)
    for used_at, size, path in sorted(copies):
        idle = now - used_at
        if path == keep or idle < _SETTLED_SECONDS:
            continue
        if total > max_bytes or idle > CACHE_DAYS * 86_400:
            path.unlink(missing_ok=True)
            total -= size
