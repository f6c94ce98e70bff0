"""Small objects beside a replica, in an S3 bucket or in a folder: read, looked for, and written only if unchanged.

Litestream moves the data; this is for the object that says who may (``shared/replica/lease_record.py``), and for the
removal of data that nobody needs. A write names what it replaces (``If-Match``, or ``If-None-Match: *``), so of two
writers exactly one succeeds. How old an object is comes from the store's clock: two machines need not agree about the
time.

The client is our own because the AWS SDK is no dependency of what runs: one signature (Signature Version 4,
https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html), four requests.
"""

import fcntl
import hashlib
import hmac
import html
import http.client
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from heapq import nsmallest
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from shared.core.errors import ConfigInvalid, PermanentError, PostroomError, RetryableError
from shared.replica.credentials import Credentials, find

REQUEST_SECONDS = 4.0
_ATTEMPTS = 2  # a kept-alive balancer or a restarting store drops one request; the second tells
_CHANGED = ((412, "PreconditionFailed"), (409, "ConditionalRequestConflict"), (404, "NoSuchKey"))
_UNSIGNED_IN_PATH = "/-_.~"


class StoreUnreachable(RetryableError):
    """No answer, or not one of the store's."""


class StoreRefused(PermanentError):
    """The store answered that it will not."""


class Changed(PostroomError):
    """The object is not the one that should have been replaced: somebody was quicker. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object. *tag* names this content of it; *age_s* is since it was written, by the store's clock."""

    body: bytes
    tag: str
    age_s: float


class Store(Protocol):
    """The objects under one replica's URL; names are relative to it."""

    levels: str  # how the names of Litestream's files begin
    newest: str  # the same, for those that hold the latest commits

    def get(self, name: str) -> Found | None:
        """The object, or None."""

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        """Write it if it still has the tag *replacing* (None: if there is none); the new tag.

        Raises:
            Changed: it has not.
        """

    def first(self, beginning: str, after: str = "") -> str | None:
        """The first name with that *beginning*, and behind *after* in the order of names; None when there is none."""

    def names(self, beginning: str, after: str = "", *, limit: int) -> list[str]:
        """So many, a thousand at most, with that *beginning*, and behind *after*; in order."""

    def delete(self, name: str) -> None:
        """Delete it; one that is not there is no error."""


def open_store(url: str, environ: Mapping[str, str]) -> Store:
    """The store at a replica's URL; the credentials are looked for in *environ*, the files it names, and the host's.

    Raises:
        ConfigInvalid: it is no such URL.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path.startswith("/") and not parts.netloc:
        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc and "@" not in parts.netloc:
        return S3Store(parts.netloc, unquote(parts.path).strip("/"), dict(parse_qsl(parts.query)), environ)
    raise ConfigInvalid("a replica is s3://bucket/prefix?endpoint=http://host:port or file:///absolute/path")


class S3Store:
    """Of S3 and what speaks like it."""

    levels = "000"
    newest = "0000/"

    def __init__(self, bucket: str, prefix: str, query: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._region = (
            query.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION", "us-east-1")
        )
        self._prefix = f"{prefix}/" if prefix else ""
        self._environ = environ
        self._credentials: Credentials | None = None
        endpoint = query.get("endpoint") or environ.get("LITESTREAM_S3_ENDPOINT", "")
        if endpoint or "." in bucket or query.get("force-path-style") == "true":
            self._base = f"{endpoint.rstrip('/') or self._amazon()}/{quote(bucket)}"
        else:
            self._base = self._amazon().replace("https://", f"https://{bucket}.", 1)
        self._opener = _opener(self._base, environ)
        self._place = f"s3://{bucket}/{prefix}" + (f" at {endpoint}" if endpoint else "")

    def get(self, name: str) -> Found | None:
        status, headers, body = self._ask("GET", self._prefix + name)
        if status == 404 and b"NoSuchKey" in body:
            return None
        self._expect(status, body)
        try:
            age_s = _instant(headers["Date"]) - _instant(headers["Last-Modified"])
        except (TypeError, ValueError):
            raise self._nonsense() from None
        return Found(body, self._tag(headers), max(0.0, age_s))

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        condition = {"If-None-Match": "*"} if replacing is None else {"If-Match": replacing}
        status, headers, answer = self._ask("PUT", self._prefix + name, body=body, headers=condition)
        # 409: two at the same moment. 404: it was there, and was deleted.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        if (status, _code(answer)) in _CHANGED:
            raise Changed(f"{name} in {self._place} was written by somebody else")
        if status == 501:
            raise StoreRefused(f"{self._place} can't write conditionally (If-Match), which the replica's lease needs")
        self._expect(status, answer)
        return self._tag(headers)

    def first(self, beginning: str, after: str = "") -> str | None:
        return next(iter(self.names(beginning, after, limit=1)), None)

    def names(self, beginning: str, after: str = "", *, limit: int) -> list[str]:
        query = {"list-type": "2", "max-keys": str(limit), "prefix": self._prefix + beginning}
        if after:
            query["start-after"] = self._prefix + after
        status, _, body = self._ask("GET", "", query=query)
        self._expect(status, body)
        if b"<ListBucketResult" not in body:
            raise self._nonsense()
        keys = re.findall(rb"<Key>(.*?)</Key>", body, re.DOTALL)
        return [html.unescape(key.decode()).removeprefix(self._prefix) for key in keys]

    def delete(self, name: str) -> None:
        status, _, body = self._ask("DELETE", self._prefix + name)
        if status != 204:
            self._expect(status, body)

    def _amazon(self) -> str:
        return f"https://s3.{self._region}.amazonaws.com{'.cn' if self._region.startswith('cn-') else ''}"

    def _expect(self, status: int, body: bytes) -> None:
        """Raise unless it is the answer of a store to a request that it carried out."""
        if status == 200:
            return
        code = _code(body)
        if status >= 500 or status == 429 or code is None:
            raise StoreUnreachable(f"{self._place} is not well: {code or f'HTTP {status}'}")
        hint = {
            301: f"; is its region really {self._region}?",
            403: "; these credentials need List, Get, Put and Delete there",
        }.get(status, "")
        raise StoreRefused(f"{self._place} refuses: {code}{hint}")

    def _tag(self, headers: Any) -> str:
        tag: str | None = headers["ETag"]
        if tag is None:
            raise self._nonsense()
        return tag

    def _nonsense(self) -> StoreUnreachable:
        """Something else than the store has answered: a proxy, or a page to sign in to a network."""
        return StoreUnreachable(f"what answers for {self._place} is no store")

    def _ask(
        self, method: str, key: str, *, query: Mapping[str, str] | None = None, body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any, bytes]:  # fmt: skip
        """Status, headers and body, whatever the status is."""
        problem: Exception | None = None
        for _ in range(_ATTEMPTS):
            request = self._request(method, key, query or {}, body, headers or {})
            try:
                with self._answer(request) as answer:
                    return answer.status or 0, answer.headers, answer.read()
            except (OSError, ValueError, http.client.HTTPException) as error:
                problem = error
        raise StoreUnreachable(f"{self._place} does not answer ({getattr(problem, 'reason', None) or problem})")

    def _answer(self, request: urllib.request.Request) -> Any:
        try:
            return self._opener.open(request, timeout=REQUEST_SECONDS)
        except urllib.error.HTTPError as answer:
            return answer

    def _request(
        self, method: str, key: str, query: Mapping[str, str], body: bytes, headers: Mapping[str, str]
    ) -> urllib.request.Request:
        if self._credentials is None or self._credentials.is_over(time.time()):
            self._credentials = find(self._environ)
        url = f"{self._base}/{quote(key, safe=_UNSIGNED_IN_PATH)}"
        arguments = "&".join(f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query))
        signed = sign(
            method, url, arguments, body, self._credentials, self._region, datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        )
        content = {"Content-Type": "application/json"} if body else {}
        return urllib.request.Request(  # noqa: S310 - http(s) only, by the bases above
            f"{url}?{arguments}" if arguments else url, body or None, {**headers, **content, **signed}, method=method
        )


def sign(
    method: str, url: str, query: str, body: bytes, credentials: Credentials, region: str, at: str
) -> dict[str, str]:
    """The headers that sign a request to S3. *url* and *query* are encoded, *at* is like ``20261121T120000Z``."""
    parts = urlsplit(url)
    headers = {"host": parts.netloc, "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "x-amz-date": at}
    if credentials.token:
        headers["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(headers))
    listed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join((method, parts.path, query, listed, names, headers["x-amz-content-sha256"]))
    scope = f"{at[:8]}/{region}/s3/aws4_request"
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A signature is for one address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(base: str, environ: Mapping[str, str]) -> urllib.request.OpenerDirector:
    """Through the proxies of *environ*, but never to this machine."""
    parts = urlsplit(base)
    proxy = environ.get(f"{parts.scheme.upper()}_PROXY") or environ.get(f"{parts.scheme}_proxy") or ""
    spared = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(",")
    host = parts.hostname or ""
    is_spared = any(host == name or host.endswith(f".{name.lstrip('.')}") for name in map(str.strip, spared) if name)
    proxies = {parts.scheme: proxy} if proxy and not is_spared and not is_loopback(host) else {}
    bundle = environ.get("AWS_CA_BUNDLE") or environ.get("SSL_CERT_FILE")
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler(proxies), _NoRedirect()]
    if parts.scheme == "https":
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=bundle)))
    return urllib.request.build_opener(*handlers)


def is_loopback(host: str) -> bool:
    """Whether the name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _code(body: bytes) -> str | None:
    """The word with which a store says what is wrong."""
    found = re.search(rb"<Code>(\w{1,60})</Code>", body)
    return found[1].decode() if found else None


def _instant(text: str) -> float:
    return parsedate_to_datetime(text).timestamp()


class FolderStore:
    """A folder. Its writers exclude each other by a lock that the kernel drops when its holder dies."""

    levels = "ltx/"
    newest = "ltx/0/"

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, name: str) -> Found | None:
        path = self._root / name
        try:
            with path.open("rb") as file:
                body, written_at = file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreRefused(f"{path} can't be read: {error.strerror}") from None
        return Found(body, hashlib.sha256(body).hexdigest(), max(0.0, time.time() - written_at))

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        path = self._root / name
        try:
            with self._locked(path):
                there = self.get(name)
                if (there.tag if there else None) != replacing:
                    raise Changed(f"{path} was written by somebody else")
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
        # Litestream renames a file when it is whole; in a bucket there is none before.
        return min((name for name in self._names(beginning, after) if not name.endswith(".tmp")), default=None)

    def names(self, beginning: str, after: str = "", *, limit: int) -> list[str]:
        return nsmallest(limit, self._names(beginning, after))

    def delete(self, name: str) -> None:
        path = self._root / name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreRefused(f"{path} can't be deleted: {error.strerror}") from None
        with suppress(OSError):  # until one is not empty
            for folder in path.relative_to(self._root).parents[:-1]:
                (self._root / folder).rmdir()

    def _names(self, beginning: str, after: str) -> Iterator[str]:
        for path in (self._root / beginning.rpartition("/")[0]).rglob("*"):
            name = path.relative_to(self._root).as_posix()
            if path.is_file() and path.name[0] != "." and name.startswith(beginning) and name > after:
                yield name

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
