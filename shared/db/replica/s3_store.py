"""Small objects beside a replica in a bucket: conditional writes, the words of obstore, a proxy."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from shared.core.errors import ConfigInvalid
from shared.db.replica.credentials import CredentialsMissing, CredentialsUnreachable, obstore_config
from shared.db.replica.request_counts import RequestCounter, RequestCounts
from shared.db.replica.stored_objects import (
    CLOCK,
    REQUEST_SECONDS,
    ListedObject,
    ObjectChanged,
    ReplicaObject,
    StoreRefused,
    StoreUnreachable,
)

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
            lambda: obstore.put(self._open(), name, body, mode=mode, use_multipart=False),
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
                for page in obstore.list(self._open())
                for item in page
            ]

        found = self._ask(listed, RequestCounts(lists=1))
        self.requests.add(RequestCounts(lists=len(found) // _KEYS_IN_A_PAGE))
        return found

    def delete(self, name: str) -> None:
        import obstore

        with suppress(_NoSuchObject):
            self._ask(lambda: obstore.delete(self._open(), name), RequestCounts(deletes=1))

    def now_s(self) -> float:
        import obstore

        self._ask(lambda: obstore.put(self._open(), CLOCK, b"", use_multipart=False), RequestCounts(puts=1))
        probe = self.get(CLOCK)
        if probe is None:
            raise StoreUnreachable(f"{self._name} has not kept {CLOCK}, which was just written there")
        return probe.written_at_s

    def _read(self, name: str) -> tuple[bytes, Any]:
        import obstore

        found = obstore.get(self._open(), name)
        return bytes(found.bytes()), found.meta  # a body can be asked for once only

    def _listed(self, beginning: str, after: str, limit: int) -> list[str]:
        import obstore

        folder = beginning.rpartition("/")[0]  # obstore lists folders
        found: list[str] = []
        for page in obstore.list(self._open(), folder, offset=max(beginning, after) or None, chunk_size=limit):
            for item in page:
                if not item["path"].startswith(beginning) or len(found) == limit:
                    return found
                found.append(item["path"])
        return found

    def _open(self) -> Any:
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
            raise StoreUnreachable(f"{self._name} answers with an error: {code or f'HTTP {status}'}")
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
