"""Small objects beside a replica, in an S3 bucket or in a folder: read, listed, and written only if unchanged.

Litestream moves the data. These objects say which machine may (``shared/db/replica/lease_record.py``), and this is how
old data is removed. A write names the version that it replaces (``If-Match``, or ``If-None-Match: *``), so of two
writers exactly one succeeds. The age of an object comes from the store's clock: two machines need not agree about the
time.
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from heapq import nsmallest
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from shared.core.errors import ConfigInvalid, PermanentError, PostroomError, RetryableError
from shared.db.engine.owner_only import make_folder
from shared.db.replica.credentials import CredentialsMissing, CredentialsUnreachable, obstore_config
from shared.db.replica.request_counts import RequestCounter, RequestCounts

REQUEST_SECONDS = 4.0
CLOCK = "lease.clock"  # the object whose writing tells the store's time
_KEYS_IN_A_PAGE = 1000  # of a listing: each page is one request
_ATTEMPTS = 2  # a kept-alive balancer or a restarting store drops one request; the second attempt decides
# 409: two writers at the same moment. 404, below: the object was deleted meanwhile.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
_LOST_THE_RACE = (("412", "PreconditionFailed"), ("409", "ConditionalRequestConflict"))
_THIS_MACHINE = "localhost,127.0.0.0/8,::1,169.254.0.0/16"  # loopback, and the services that hand out a role's keys
_EVERY_HOST = "*,0.0.0.0/0,::/0"  # to obstore, * means names and not addresses
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_ENDPOINT = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[^][\s/?#@:]+)(:[0-9]+)?(/[^\s?#]*)?")

T = TypeVar("T")


class StoreUnreachable(RetryableError):
    """The store did not answer, or something else answered in its place."""


class StoreRefused(PermanentError):
    """The store answered that it will not."""


class ObjectChanged(PostroomError):
    """Another writer was quicker: the object is not the version that was to be replaced. Nothing was written."""


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object in a listing: its name, its size, and when it was written (Unix time, by the store's clock)."""

    name: str
    bytes: int
    written_at_s: float


@dataclass(frozen=True, slots=True)
class ReplicaObject:
    """One version of an object.

    Args:
        tag: names this version.
        written_at_s: Unix time, by the store's clock.
    """

    body: bytes
    tag: str
    written_at_s: float


class ObjectStore(Protocol):
    """The objects under one replica's URL. Names are relative to the URL."""

    requests: RequestCounter  # counts what a bucket bills
    ltx_files: str  # how the names of Litestream's files begin
    newest_ltx_files: str  # how the names of the files with the latest commits begin

    def get(self, name: str) -> ReplicaObject | None:
        """The object, or None where there is none."""

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        """Write the object if its tag is still *replacing* (None: if there is no object); return the new tag.

        Raises:
            ObjectChanged: it has another tag.
        """

    def first(self, beginning: str, after: str = "") -> str | None:
        """The first name that begins with *beginning* and sorts behind *after*; None when there is none."""

    def names(self, beginning: str, after: str = "", *, limit: int) -> list[str]:
        """The first *limit* names that begin with *beginning* and sort behind *after*, in order."""

    def every(self) -> list[ListedObject]:
        """All objects under the URL."""

    def delete(self, name: str) -> None:
        """Delete the object; a missing one is no error."""

    def now_s(self) -> float:
        """Unix time by the store's clock."""


def open_store(url: str, environ: Mapping[str, str]) -> ObjectStore:
    """The store at a replica's URL. Credentials come from *environ*, the files that it names, and the host's role.

    Raises:
        ConfigInvalid: the URL has another form.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path.startswith("/") and not parts.netloc:
        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc and "@" not in parts.netloc:
        return S3ObjectStore(parts.netloc, unquote(parts.path).strip("/"), dict(parse_qsl(parts.query)), environ)
    raise ConfigInvalid("a replica's URL is s3://bucket/prefix?endpoint=http://host:port or file:///absolute/path")


class S3ObjectStore:
    """A prefix of a bucket, in S3 or in a store with the same API."""

    ltx_files = "000"
    newest_ltx_files = "0000/"

    def __init__(self, bucket: str, prefix: str, query: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._bucket, self._prefix, self._environ = bucket, prefix, environ
        self._region = (
            query.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION", "us-east-1")
        )
        self._endpoint = (query.get("endpoint") or environ.get("LITESTREAM_S3_ENDPOINT", "")).rstrip("/")
        _check_address(bucket, prefix, self._endpoint)
        self._name = f"s3://{bucket}/{prefix}" + (f" at {self._endpoint}" if self._endpoint else "")
        if not self._endpoint and self._region.startswith("cn-"):
            self._endpoint = f"https://s3.{self._region}.amazonaws.com.cn"  # which obstore does not know
        self._has_bucket_in_path = bool(self._endpoint) or "." in bucket or query.get("force-path-style") == "true"
        self._store: Any = None
        self.requests = RequestCounter()

    def get(self, name: str) -> ReplicaObject | None:
        try:
            body, meta = self._ask(lambda: self._read(name), RequestCounts(gets=1))
        except _NoSuchObject:
            return None
        self.requests.add(RequestCounts(received_bytes=len(body)))
        if not meta["e_tag"]:
            raise StoreUnreachable(f"what answers for {self._name} is no object store")
        return ReplicaObject(body, meta["e_tag"], meta["last_modified"].timestamp())

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        import obstore

        mode: Any = "create" if replacing is None else {"e_tag": replacing}
        written = self._ask(
            lambda: obstore.put(self._opened(), name, body, mode=mode, use_multipart=False),
            RequestCounts(puts=1, sent_bytes=len(body)),
        )
        return str(written["e_tag"])

    def first(self, beginning: str, after: str = "") -> str | None:
        return next(iter(self.names(beginning, after, limit=1)), None)

    def names(self, beginning: str, after: str = "", *, limit: int) -> list[str]:
        found = self._ask(lambda: self._listed(beginning, after, limit), RequestCounts(lists=1))
        if not found:
            # To obstore, a page to sign in to a network reads like an empty bucket; reading an object tells.
            self.get(CLOCK)
        return found

    def every(self) -> list[ListedObject]:
        import obstore

        def listed() -> list[ListedObject]:
            return [
                ListedObject(item["path"], item["size"], item["last_modified"].timestamp())
                for page in obstore.list(self._opened())
                for item in page
            ]

        found = self._ask(listed, RequestCounts(lists=1))
        self.requests.add(RequestCounts(lists=len(found) // _KEYS_IN_A_PAGE))
        return found

    def delete(self, name: str) -> None:
        import obstore

        with suppress(_NoSuchObject):
            self._ask(lambda: obstore.delete(self._opened(), name), RequestCounts(deletes=1))

    def now_s(self) -> float:
        import obstore

        self._ask(lambda: obstore.put(self._opened(), CLOCK, b"", use_multipart=False), RequestCounts(puts=1))
        probe = self.get(CLOCK)
        if probe is None:
            raise StoreUnreachable(f"{self._name} has not kept {CLOCK}, which was just written there")
        return probe.written_at_s

    def _read(self, name: str) -> tuple[bytes, Any]:
        import obstore

        found = obstore.get(self._opened(), name)
        return bytes(found.bytes()), found.meta  # a body can be asked for once only

    def _listed(self, beginning: str, after: str, limit: int) -> list[str]:
        import obstore

        folder = beginning.rpartition("/")[0]  # obstore lists folders
        found: list[str] = []
        for page in obstore.list(self._opened(), folder, offset=max(beginning, after) or None, chunk_size=limit):
            for item in page:
                if not item["path"].startswith(beginning) or len(found) == limit:
                    return found
                found.append(item["path"])
        return found

    def _opened(self) -> Any:
        if self._store is None:
            from obstore.store import S3Store  # not above: a process without a bucket is spared its 9 MB

            if bundle := self._environ.get("AWS_CA_BUNDLE") or self._environ.get("SSL_CERT_FILE"):
                os.environ.setdefault("SSL_CERT_FILE", bundle)  # the name that obstore's TLS reads
            config: Any = obstore_config(self._environ) | {
                "region": self._region,
                "virtual_hosted_style_request": not self._has_bucket_in_path,
            }
            if self._endpoint:
                config["endpoint"] = self._endpoint
            limit = timedelta(seconds=REQUEST_SECONDS)
            client: Any = {"allow_http": True, "timeout": limit, "connect_timeout": limit} | self._proxy()
            self._store = S3Store(
                self._bucket,
                prefix=self._prefix or None,
                config=config,
                client_options=client,
                retry_config={"max_retries": 0, "retry_timeout": limit},  # it would wait between attempts
            )
        return self._store

    def _proxy(self) -> dict[str, str]:
        """The proxy of *environ*, for other hosts. obstore alone would use that of this process, for every host."""
        scheme = urlsplit(self._endpoint).scheme or "https"
        proxy = self._environ.get(f"{scheme.upper()}_PROXY") or self._environ.get(f"{scheme}_proxy")
        if not proxy:
            return {"proxy_url": "http://unused.invalid", "proxy_excludes": _EVERY_HOST}
        spared = self._environ.get("NO_PROXY") or self._environ.get("no_proxy")
        return {"proxy_url": proxy, "proxy_excludes": f"{_THIS_MACHINE},{spared}" if spared else _THIS_MACHINE}

    def _ask(self, request: Callable[[], T], counts: RequestCounts) -> T:
        from obstore.exceptions import BaseError

        for attempt in range(1, _ATTEMPTS + 1):
            self.requests.add(counts)
            try:
                return request()
            except (BaseError, FileNotFoundError) as error:  # obstore's "not found" is Python's
                problem = str(error)
                if "status code" in problem or attempt == _ATTEMPTS:
                    self._raise(problem)
        raise AssertionError

    def _raise(self, problem: str) -> NoReturn:
        """The error of ours that obstore's words mean: ``Error performing GET URL in 1ms - Server returned ...``."""
        said = problem.partition("\n\nDebug source")[0]
        address = _first(r"Error performing [A-Z]+ (\S+)", said) or ""
        status, code = _first(r"status code: (\d{3})", said), _first(r"(?:<Code>|\(code: )(\w{1,60})", said)
        if address and self._bucket not in address:  # it asked for a role's keys, and not for the bucket
            if {*obstore_config(self._environ)} == {"metadata_endpoint"}:
                raise CredentialsMissing
            raise CredentialsUnreachable(f"the host's role gave no credentials ({said})")
        if (status, code) == ("404", "NoSuchKey"):
            raise _NoSuchObject(f"the object in {self._name} is gone")
        if (status, code) in _LOST_THE_RACE:
            raise ObjectChanged(f"another writer has changed the object in {self._name}")
        if status == "501":
            raise StoreRefused(
                f"{self._name} has no conditional writes (If-Match), which the lease on a replica needs: use another "
                "object store"
            )
        if "redirect without LOCATION" in said:
            raise StoreRefused(f"{self._name} is in another region than {self._region}: set AWS_REGION")
        if status is not None and (code is None or status >= "500" or status == "429"):
            raise StoreUnreachable(f"{self._name} is not well: {code or f'HTTP {status}'}")
        if code is not None:
            hint = "; these credentials need List, Get, Put and Delete there" if status == "403" else ""
            raise StoreRefused(f"{self._name} refuses: {code}{hint}")
        if (reason := _why_unanswered(said, problem)) is None:
            raise StoreUnreachable(f"what answers for {self._name} is no object store")
        raise StoreUnreachable(f"{self._name} does not answer ({reason})")


class _NoSuchObject(ObjectChanged):
    """The bucket answers that it has no such object."""


def _check_address(bucket: str, prefix: str, endpoint: str) -> None:
    """Refuse what obstore would meet with a panic, which ``except Exception`` does not catch, or a ValueError.

    Raises:
        ConfigInvalid
    """
    if not _BUCKET.fullmatch(bucket) or (prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/"))):
        raise ConfigInvalid(f"s3://{bucket}/{prefix} is no bucket with a prefix; write it like s3://bucket/one/or/more")
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        raise ConfigInvalid(f"{endpoint} is no endpoint of a bucket; write it like http://host:port")


def _why_unanswered(said: str, problem: str) -> str | None:
    """Why no whole answer came, or None if one came that is not an object store's."""
    if "kind: Timeout" in problem:
        return f"timed out after {REQUEST_SECONDS:g} s"
    if "request or response body error" in said:
        return "its answer broke off"
    if "Error performing" not in said:
        return None
    return _first(r'message: "([^"]+)"', problem) or said.rpartition(" - ")[2]


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None


def is_loopback(host: str) -> bool:
    """Whether the name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class FolderStore:
    """A folder. A lock that the kernel drops with its holder lets one writer in at a time."""

    ltx_files = "ltx/"
    newest_ltx_files = "ltx/0/"

    def __init__(self, root: Path) -> None:
        self._root = root
        self.requests = RequestCounter()  # a folder bills nothing: it stays at none

    def get(self, name: str) -> ReplicaObject | None:
        path = self._root / name
        try:
            with path.open("rb") as file:
                body, written_at_s = file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreRefused(f"{path} can't be read: {error.strerror}") from None
        return ReplicaObject(body, hashlib.sha256(body).hexdigest(), written_at_s)

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        path = self._root / name
        try:
            with self._locked(path):
                there = self.get(name)
                if (there.tag if there else None) != replacing:
                    raise ObjectChanged(f"another writer has changed {path}")
                temporary = path.with_name(f"{path.name}.tmp")
                handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
        except OSError as error:
            raise StoreRefused(f"{path} can't be written: {error.strerror}") from None
        return hashlib.sha256(body).hexdigest()

    def first(self, beginning: str, after: str = "") -> str | None:
        # Litestream renames a file when it is whole; a bucket has no half-written files.
        return min((name for name in self._names(beginning, after) if not name.endswith(".tmp")), default=None)

    def names(self, beginning: str, after: str = "", *, limit: int) -> list[str]:
        return nsmallest(limit, self._names(beginning, after))

    def every(self) -> list[ListedObject]:
        found = []
        for name in sorted(self._names("", "")):
            with suppress(OSError):  # deleted meanwhile
                facts = (self._root / name).stat()
                found.append(ListedObject(name, facts.st_size, facts.st_mtime))
        return found

    def delete(self, name: str) -> None:
        path = self._root / name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreRefused(f"{path} can't be deleted: {error.strerror}") from None
        with suppress(OSError):  # at the first folder that is not empty
            for folder in path.relative_to(self._root).parents[:-1]:
                (self._root / folder).rmdir()

    def now_s(self) -> float:
        return time.time()

    def _names(self, beginning: str, after: str) -> Iterator[str]:
        for path in (self._root / beginning.rpartition("/")[0]).rglob("*"):
            name = path.relative_to(self._root).as_posix()
            if path.is_file() and path.name[0] != "." and name.startswith(beginning) and name > after:
                yield name

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        make_folder(path.parent)
        handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
