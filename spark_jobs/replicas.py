"""Reads a Litestream replica by position: pins a position, restores it once per host, and hands out the file.

A replica is an object-storage prefix (``s3://bucket/prefix?endpoint=http://127.0.0.1:9000``) or a folder
(``file:///var/backups/postroom``). The real ``litestream`` program does the reading. This module adds what it lacks. An
endpoint that is away is reported within seconds (the program retries silently for two minutes). "Now" on a quiet
database means the latest commit. The restored copies lie in a private cache that readers on one host share.

The URL of a replica stays, while each restore of the writer begins a new history (*epoch*) under a prefix of its own.
``lease.json`` at the URL says which prefix is the current one (``shared/replica/lease_record.py``). A pin names its
epoch. The URL of a prefix works as well, and so does that of a replica from before there were epochs.

- A cached file never changes, so readers may open it with ``immutable=1``. It holds people's messages: 0600 in 0700.
- Credentials come from the environment (``AWS_ACCESS_KEY_ID`` ...) or its files. They never come from the URL, which is
  pickled to workers and shown in plans.
- Litestream counts commits by *txid*, sixteen hexadecimal digits. A txid can be restored only if a stored file ends
  there: each commit for an hour (``l0-retention``), then one in about thirty seconds.

::

    PostroomError
    ├── ConfigInvalid
    │   ├── ReplicaInvalid       the URL, the position or the cache folder is not usable as given
    │   └── LitestreamMissing    the program is not installed (of shared/replica)
    ├── PermanentError
    │   ├── ReplicaMissing       nothing has been replicated there
    │   ├── PositionMissing      the replica has no such position, or has it no more
    │   └── RestoreFailed        the program refused, with its own words
    └── RetryableError
        └── ReplicaUnreachable   no answer
"""

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from shared.core.errors import ConfigInvalid, PermanentError, RetryableError
from shared.db.engine.owner_only import UMASK, make_folder
from shared.replica import lease_record
from shared.replica.credentials import CredentialsMissing, CredentialsUnreachable
from shared.replica.lease_record import ReplicaPrefix
from shared.replica.litestream_program import (
    environment_for,
    program,
    restore_command,
    says_nothing_is_there,
    says_store_is_away,
)
from shared.replica.object_store import ObjectStore, StoreRefused, StoreUnreachable, is_loopback, open_store

CACHE_BYTES = 10 * 2**30
CACHE_DAYS = 7
PLAN_SECONDS = 60.0
RESTORE_SECONDS = 3600.0

T = TypeVar("T")

_log = logging.getLogger("postroom.replicas")
_SETTLED_SECONDS = 600.0  # a copy used more recently than this is never evicted
_LOCKS = 64

# https://litestream.io/guides/s3-compatible/ : what an URL may carry besides the place itself
_S3_QUERY = ("endpoint", "region", "force-path-style", "sign-payload", "concurrency", "part-size")
_KEPT_ENVIRONMENT = re.compile(
    r"PATH|HOME|LANG|TMPDIR|SSL_CERT_(FILE|DIR)|(HTTPS?|NO)_PROXY|(https?|no)_proxy"
    r"|LITESTREAM_(ACCESS_KEY_ID|SECRET_ACCESS_KEY)"
    r"|AWS_(CA_BUNDLE|ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION|PROFILE|SHARED_CREDENTIALS_FILE"
    r"|CONFIG_FILE|ROLE_ARN|ROLE_SESSION_NAME|WEB_IDENTITY_TOKEN_FILE|CONTAINER_\w+)"
)
_EPOCH = re.compile(r"[A-Za-z0-9_-]{1,100}")
_LOOPBACK_DROPS = re.compile(r"(HTTPS?|NO)_PROXY|AWS_PROFILE", re.IGNORECASE)


class ReplicaInvalid(ConfigInvalid):
    """The URL, the position or the cache folder is not usable as given."""


class ReplicaMissing(PermanentError):
    """Nothing has been replicated to this place."""


class PositionMissing(PermanentError):
    """The replica is there, and has no such position, or has it no more."""


class RestoreFailed(PermanentError):
    """The ``litestream`` program refused; the message has its own words."""


class ReplicaUnreachable(RetryableError):
    """The endpoint gave no answer in time."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One position of one replica: two readers with equal pins read equal rows.

    Args:
        url: the replica.
        txid: the commit, sixteen hexadecimal digits.
        timestamp: when it was made, RFC 3339 UTC, to the second. It also tells histories apart: a replica that was
            wiped and begun again counts from one again.
        epoch: the prefix below the URL that holds its history; empty when that lies at the URL itself.
    """

    url: str
    txid: str
    timestamp: str
    epoch: str = ""

    @property
    def source(self) -> str:
        """The URL for Litestream."""
        return lease_record.prefix_url(self.url, self.epoch)

    @property
    def key(self) -> str:
        """The name of its copy in a cache."""
        return hashlib.sha256("\n".join((self.source, self.txid, self.timestamp)).encode()).hexdigest()[:32]

    @property
    def position(self) -> str:
        """``txid@timestamp@epoch``: with the URL, it makes the pin again (:meth:`at`)."""
        return f"{self.txid}@{self.timestamp}" + (f"@{self.epoch}" if self.epoch else "")

    @classmethod
    def at(cls, url: str, position: str) -> Self:
        """The pin with this :attr:`position`."""
        txid, timestamp, epoch = (*position.split("@", 2), "", "")[:3]
        if epoch and not _EPOCH.fullmatch(epoch):
            raise ReplicaInvalid(f"{position!r} is no position; the form is txid@timestamp@epoch, as in Pin.position")
        return cls(url, _parse_txid(txid), timestamp, epoch)


def resolve(url: str, *, txid: str | None = None, timestamp: str | datetime | None = None) -> Pin:
    """Find the position to read: the latest, that of *txid*, or the last one before *timestamp*.

    Args:
        url: the replica.
        txid: hexadecimal, as Litestream prints it.
        timestamp: ISO 8601; UTC unless it says otherwise. Later than the last commit means the latest.

    Raises:
        ReplicaInvalid, ReplicaMissing, PositionMissing, ReplicaUnreachable, RestoreFailed, LitestreamMissing
    """
    check_url(url)
    if txid is not None and timestamp is not None:
        raise ReplicaInvalid("a position is a txid or a timestamp: leave one of them out")
    at = None if timestamp is None else _parse_timestamp(timestamp)
    asked = None if txid is None else _parse_txid(txid)
    prefixes = _prefixes(url)
    if at is not None:
        return _resolve_timestamp(url, prefixes, at)
    newest = prefixes[-1].path
    source = lease_record.prefix_url(url, newest)
    pin = _resolve_txid(source, asked) if asked is not None else _plan(source)
    if pin is None:
        raise _missing(url)
    return Pin(url, pin.txid, pin.timestamp, newest)


def _prefixes(url: str) -> list[ReplicaPrefix]:
    """The prefixes of all histories; the current one is the last."""

    def full(store: ObjectStore) -> list[ReplicaPrefix]:
        record = lease_record.read(store)
        return lease_record.full_prefixes(store, record) if record else [lease_record.AT_THE_URL]

    found = _ask_store(url, full)
    if not found:
        raise _missing(url)
    return found


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


def pinned(
    url: str,
    *,
    txid: str | None = None,
    timestamp: str | datetime | None = None,
    cache_dir: str | Path | None = None,
) -> tuple[Pin, Path]:
    """:func:`resolve` and :func:`ensure_local`, once more if the position was compacted away in between."""
    pin = resolve(url, txid=txid, timestamp=timestamp)
    try:
        return pin, ensure_local(pin, cache_dir)
    except PositionMissing:
        pin = resolve(url, txid=txid, timestamp=timestamp)
        return pin, ensure_local(pin, cache_dir)


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/postroom/replicas``, else under ``~/.cache``."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "postroom" / "replicas"


def check_url(url: str) -> None:
    """Refuse a URL that is no replica's, and every URL with credentials.

    Raises:
        ReplicaInvalid: never repeats the URL, which may hold a secret.
    """
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        endpoint = urlsplit(query.get("endpoint", ""))
    except ValueError:
        raise ReplicaInvalid(
            "the replica's URL can't be parsed; write s3://bucket/prefix?endpoint=http://host:port"
        ) from None
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or parts.query:
            raise ReplicaInvalid(
                "a replica in a folder is file:///absolute/path: three slashes, and nothing after the path"
            )
        return
    if parts.scheme != "s3":
        raise ReplicaInvalid("a replica is s3://bucket/prefix?endpoint=http://host:port or file:///absolute/path")
    unknown = sorted(set(query) - set(_S3_QUERY))
    if "@" in parts.netloc or "@" in endpoint.netloc or any("key" in name or "secret" in name for name in unknown):
        raise ReplicaInvalid(
            "credentials do not belong in a replica's URL, which Spark shows in plans and logs: "
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        )
    if not parts.netloc:
        raise ReplicaInvalid("the replica's URL names no bucket: s3://bucket/prefix")
    if unknown:
        raise ReplicaInvalid(
            f"unknown settings in the replica's URL: {', '.join(unknown)}; known: {', '.join(_S3_QUERY)}"
        )
    if "endpoint" in query and (endpoint.scheme not in ("http", "https") or not endpoint.hostname):
        raise ReplicaInvalid("the replica's endpoint is an address like http://127.0.0.1:9000")


def _resolve_txid(url: str, txid: str) -> Pin:
    pin = _plan(url, "-txid", txid)
    if pin is not None and pin.txid == txid:
        return pin
    raise _no_such_txid(url, txid)


def _no_such_txid(url: str, txid: str) -> PermanentError:
    """Say which positions around *txid* there are."""
    ends = sorted({file["max_txid"] for file in _files(url)})
    if not ends:
        return _missing(url)
    below = max((end for end in ends if end < txid), default=None)
    above = min((end for end in ends if end > txid), default=None)
    near = " and ".join(end for end in (below, above) if end is not None)
    return PositionMissing(
        f"txid {txid} can't be restored: the replica does not have it, or has merged it into a later one; "
        f"the nearest are {near}"
    )


def _resolve_timestamp(url: str, prefixes: list[ReplicaPrefix], at: datetime) -> Pin:
    """The last position before *at*, in the newest history that has one."""
    begun = [prefix for prefix in prefixes if prefix.began_at <= at.timestamp() * 1000] or prefixes[:1]
    for number, prefix in enumerate(reversed(begun), 1):
        try:
            pin = _last_before(lease_record.prefix_url(url, prefix.path), at)
            return Pin(url, pin.txid, pin.timestamp, prefix.path)
        except PositionMissing:
            if number == len(begun):
                raise
    raise _missing(url)


def _last_before(url: str, at: datetime) -> Pin:
    asked = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    pin = _plan(url, "-timestamp", asked)
    if pin is not None:
        return pin
    latest = _plan(url)  # the program refuses an instant after the last commit, as "now" on a quiet database is
    if latest is None:
        raise _missing(url)
    if _parse_timestamp(latest.timestamp) <= at:
        return latest
    oldest = min(file["timestamp"] for file in _files(url))
    raise PositionMissing(f"the replica has nothing from before {asked}: its oldest position is from {oldest}")


def _plan(url: str, *position: str) -> Pin | None:
    """What a restore would give, or None when there is nothing to restore."""
    target = Path("/nonexistent") / secrets.token_hex(8)  # the program refuses a target that exists; none is written
    command = [program(), "restore", "-dry-run", "-json", *position, "-o", str(target), url]
    done = _run(url, command, timeout_s=PLAN_SECONDS)
    if done.returncode:
        if says_nothing_is_there(done.stderr):
            return None
        raise _refusal(url, done.stderr)
    plan = json.loads(done.stdout)
    return Pin(url, plan["max_txid"], max(file["timestamp"] for file in plan["files"]))


def _files(url: str) -> list[dict[str, Any]]:
    """Every stored file of the replica: level, min_txid, max_txid, size, timestamp."""
    done = _run(url, [program(), "ltx", "-level", "all", "-json", url], timeout_s=PLAN_SECONDS)
    if done.returncode:
        raise _refusal(url, done.stderr)
    files: list[dict[str, Any]] = json.loads(done.stdout) or []
    return files


def _restore(pin: Pin, path: Path) -> None:
    """Write *path* whole or not at all."""
    _ask_store(pin.url, lambda store: store.get(lease_record.NAME))
    started = time.monotonic()
    part = path.with_name(f"{pin.key}.{secrets.token_hex(4)}.part")
    try:
        command = restore_command(pin.source, part, "-txid", pin.txid)
        done = _run(pin.source, command, timeout_s=RESTORE_SECONDS)
        if done.returncode:
            raise _refusal(pin.source, done.stderr)
        if not part.exists():
            raise _no_such_txid(pin.source, pin.txid)
        part.chmod(0o600)
        part.replace(path)
    finally:
        for left in path.parent.glob(part.name + "*"):
            left.unlink(missing_ok=True)
    _log.info(
        "replica.restored txid=%s bytes=%d seconds=%.1f", pin.txid, path.stat().st_size, time.monotonic() - started
    )


def _run(url: str, command: list[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=_environment(url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            umask=UMASK,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReplicaUnreachable(f"{_shown(url)} did not answer litestream within {timeout_s:.0f} s") from None


def _environment(url: str) -> dict[str, str]:
    """The environment for the program: only what it needs.

    Requests to an endpoint on this machine go past every proxy, and with any keys.
    """
    kept = environment_for({name: value for name, value in os.environ.items() if _KEPT_ENVIRONMENT.fullmatch(name)})
    if _is_loopback(_endpoint(url)):
        kept = {name: value for name, value in kept.items() if not _LOOPBACK_DROPS.fullmatch(name)}
        if "AWS_ACCESS_KEY_ID" not in kept:
            kept |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
        kept.setdefault("AWS_REGION", "us-east-1")
    return kept


def _ask_store(url: str, question: Callable[[ObjectStore], T]) -> T:
    """Ask the object store itself, which fails within seconds where the program would retry for two minutes."""
    try:
        return question(open_store(url, _environment(url)))
    except (StoreUnreachable, CredentialsUnreachable) as error:
        raise ReplicaUnreachable(f"{error}: check the address, and that the store is up") from None
    except CredentialsMissing as error:
        raise RestoreFailed(str(error)) from None
    except StoreRefused as error:
        raise _refusal(url, str(error)) from None


def _refusal(url: str, stderr: str) -> PermanentError | RetryableError:
    """The error that the program's last words mean."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = (lines[-1] if lines else "nothing").removeprefix("Error: ")[:400]
    if "NoSuchBucket" in stderr:
        return ReplicaMissing(f"there is no such bucket: {_shown(url)}")
    if re.search(r"get credentials|no EC2 IMDS role", stderr):
        return RestoreFailed(
            f"no credentials for {_shown(url)}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if re.search(r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|StatusCode: 403", stderr):
        return RestoreFailed(f"{_shown(url)} refuses these credentials: they need List and Get on the prefix ({said})")
    if says_store_is_away(stderr):
        return ReplicaUnreachable(f"{_shown(url)} does not answer ({said})")
    return RestoreFailed(f"litestream could not read {_shown(url)}: {said}")


def _missing(url: str) -> ReplicaMissing:
    return ReplicaMissing(f"there is no replica at {_shown(url)}: check the address, and that Litestream has run once")


def _shown(url: str) -> str:
    """The URL for people."""
    endpoint = _endpoint(url)
    return url.partition("?")[0] + (f" at {endpoint}" if endpoint else "")


def _endpoint(url: str) -> str:
    return dict(parse_qsl(urlsplit(url).query)).get("endpoint", "")


def _is_loopback(endpoint: str) -> bool:
    return is_loopback(urlsplit(endpoint).hostname or "")


def _parse_txid(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text) or not int(text, 16):
        raise ReplicaInvalid(f"{text!r} is no txid: write up to sixteen hexadecimal digits, as Litestream prints them")
    return text.lower().zfill(16)


def _parse_timestamp(value: str | datetime) -> datetime:
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except ValueError:
        raise ReplicaInvalid(f"{value!r} is no timestamp: write it like 2026-03-01T12:00:00Z") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


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
