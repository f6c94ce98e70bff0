"""moto's S3, with its objects kept on disk.

moto keeps objects in memory and forgets them at exit, which no replica may do. Here every change of an object is
written to disk (temporary file, fsync, rename) *before* its response goes out, and everything is read back at start:
``python -m emulator.storage.s3_server --port 9100 --dir .emulator/s3 --bucket postroom-replica``.

Kept per object: body, content type, user metadata (a point-in-time restore depends on Litestream's
``x-amz-meta-litestream-timestamp``), ETag, and the instant of the last change. Not kept: object versions, tags, ACLs
and uploads that were not completed.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import re
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from emulator.storage.placeholder_modules import placeholders
from emulator.storage.plain_list import page, plain_list
from emulator.storage.plain_requests import MOST_BYTES, Answer, PlainPut, is_plain_get, plain_put
from shared.core import http_head

_MAX_NAME = 200  # file systems take 255 bytes; a temporary suffix must fit too
_SUFFIX = ".object"
_PLAIN_TEXT = re.compile(r"[ -~]*")  # what a header may hold
_BUCKET = re.compile(r"[a-z0-9]([a-z0-9-]|\.(?!\.))*")  # stricter than moto: each is a folder
_NOT_FOR_S3 = (  # imports of moto that an S3 server never calls: 20 MB of 75
    *("boto3", "unittest", "unittest.mock"),  # mocks for programs
    *("cryptography", "cryptography.hazmat", "cryptography.hazmat.backends", "moto.iam.aws_managed_policies"),
)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as it stands on disk. ``modified_at`` is in seconds UTC."""

    key: str
    body: bytes
    metadata: dict[str, str]
    etag: str
    modified_at: float


class ObjectFolder:
    """Objects as files: ``DIR/bucket/quoted-key.object``, a line of JSON and then the body."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def buckets(self) -> list[str]:
        """All buckets, also the empty ones."""
        return sorted(entry.name for entry in self._root.iterdir() if entry.is_dir())

    def add_bucket(self, bucket: str) -> None:
        """Create the bucket if it does not exist."""
        self._bucket(bucket).mkdir(exist_ok=True, mode=0o700)
        _sync_folder(self._root)

    def remove_bucket(self, bucket: str) -> None:
        """Remove the (empty) bucket; a missing bucket is no error."""
        folder = self._bucket(bucket)
        if folder.is_dir():
            for leftover in folder.iterdir():
                leftover.unlink()
            folder.rmdir()
            _sync_folder(self._root)

    def put(self, bucket: str, item: StoredObject) -> None:
        """Write the object so that a crash leaves the old or the new version, never a part."""
        target = self._path(bucket, item.key)
        temporary = target.with_name(f"{target.name}.{threading.get_ident()}.tmp")
        head = {"key": item.key, "metadata": item.metadata, "etag": item.etag, "modified_at": item.modified_at}
        with temporary.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n")
            file.write(item.body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)

    def delete(self, bucket: str, key: str) -> None:
        """Remove the object; a missing object is no error."""
        self._path(bucket, key).unlink(missing_ok=True)

    def load(self, bucket: str) -> Iterable[StoredObject]:
        """Every object of the bucket; removes the half-written files of a crash."""
        for path in sorted(self._bucket(bucket).iterdir()):
            if path.suffix != _SUFFIX:
                path.unlink()
                continue
            yield _stored(path)

    def get(self, bucket: str, key: str) -> StoredObject | None:
        """The object on disk; None if there is none."""
        path = self._path(bucket, key)
        return _stored(path) if path.is_file() else None

    def _path(self, bucket: str, key: str) -> Path:
        name = quote(key, safe="")
        if len(name) > _MAX_NAME:
            name = "sha256-" + hashlib.sha256(key.encode()).hexdigest()
        return self._bucket(bucket) / (name + _SUFFIX)

    def _bucket(self, name: str) -> Path:
        if not _BUCKET.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid bucket name")
        return self._root / name


def _stored(path: Path) -> StoredObject:
    head, _, body = path.read_bytes().partition(b"\n")
    facts = json.loads(head)
    return StoredObject(facts["key"], body, facts["metadata"], facts["etag"], facts["modified_at"])


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class WriteThrough:
    """A WSGI application around moto's: responds to a change only when it is on disk."""

    def __init__(self, application: Callable[..., Iterable[bytes]], backend: Any, folder: ObjectFolder) -> None:
        self._application = application
        self._backend = backend
        self._folder = folder
        self._lock = threading.Lock()
        self._conditional = threading.Lock()
        self._kept: set[tuple[str, str]] = set()  # bucket and key of each object on disk
        # Those of moto's objects whose ETag was known before anybody could read them. moto computes an ETag at its
        # first use, from the buffer that a reader moves at the same time.
        self._plain: weakref.WeakSet[Any] = weakref.WeakSet()

    def load(self) -> int:
        """Load the objects on disk into moto; returns their number."""
        for bucket in self._folder.buckets():
            if bucket not in self._backend.buckets:
                self._backend.create_bucket(bucket, "us-east-1")
            for item in self._folder.load(bucket):
                self._remember(bucket, item)
                self._kept.add((bucket, item.key))
        return len(self._kept)

    def _remember(self, bucket: str, item: StoredObject) -> None:
        key = self._backend.put_object(bucket, item.key, item.body, etag=item.etag, disable_notification=True)
        key.set_metadata(item.metadata, replace=True)
        key.last_modified = datetime.datetime.fromtimestamp(item.modified_at, datetime.UTC).replace(tzinfo=None)
        if all(_PLAIN_TEXT.fullmatch(text) for pair in item.metadata.items() for text in pair):
            self._plain.add(key)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        answer = _refusal(environ) or self.answer_plainly(environ)
        if answer is None and environ["REQUEST_METHOD"] in ("GET", "HEAD", "OPTIONS"):
            return self._application(environ, start_response)
        status, headers, body = answer or self._change(environ)
        start_response(status, headers)
        return body

    def answer_plainly(self, environ: dict[str, Any]) -> Answer | None:
        """The answer to a plain PUT, GET or listing; None where moto has to see the request, and then nothing is read.

        *environ* may lack what only moto needs.
        """
        bucket, key = _names(environ)
        if not self._is_plain(bucket) or _refusal(environ) is not None:
            return None
        if environ["REQUEST_METHOD"] == "GET":
            return self._get(bucket, key, environ) if key else self._list(bucket, environ)
        plain = plain_put(environ) if key else None
        return None if plain is None else self._on_disk(bucket, key, self._put(bucket, key, plain))

    def _get(self, bucket: str, key: str, environ: dict[str, Any]) -> Answer | None:
        owner = self._backend.buckets.get(bucket)
        found = None if owner is None else owner.keys.get(key)
        if found is None or found not in self._plain or found.size > MOST_BYTES or not is_plain_get(environ):
            return None
        try:
            body = found.value
        except ValueError:  # another request has just replaced or deleted it
            return None
        headers = {**found.response_dict, **found.metadata, "Accept-Ranges": "bytes"}
        return "200 OK", list(headers.items()), [body]

    def _list(self, bucket: str, environ: dict[str, Any]) -> Answer | None:
        asked = plain_list(environ)
        if asked is None:
            return None
        body = page(asked, bucket, self._backend.buckets[bucket].keys)
        return "200 OK", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], [body]

    def _change(self, environ: dict[str, Any]) -> Answer:
        bucket, key = _names(environ)
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        return self._on_disk(bucket, key, self._through_moto(environ), whole_bucket="delete" in query)

    def _on_disk(self, bucket: str, key: str, answer: Answer, *, whole_bucket: bool = False) -> Answer:
        """The *answer* to a change, once it is on disk; 503 where the disk refuses it."""
        if not bucket or not answer[0].startswith("2"):
            return answer
        try:
            with self._lock:
                self._keep(bucket, key, whole_bucket=whole_bucket)
        except OSError as error:
            # The change is in memory only. A 200 now would be a lie, and so would a later list with the object.
            self._take_back(bucket, key)
            told = f"the object could not be written to disk: {error.strerror}"
            return _error("503 Service Unavailable", "SlowDown", told)
        return answer

    def _through_moto(self, environ: dict[str, Any]) -> Answer:
        answer: list[Any] = []

        def remember(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
            answer[:] = [status, headers]
            return lambda data: None

        # moto checks the condition and then writes. Without a lock, a second request's condition could hold in between.
        is_conditional = "HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ
        with self._conditional if is_conditional else contextlib.nullcontext():
            body = list(self._application(environ, remember))
        return answer[0], answer[1], body

    def _is_plain(self, bucket: str) -> bool:
        """Whether the bucket is one of moto's without versions, locks, encryption or listeners."""
        found = self._backend.buckets.get(bucket)
        return found is not None and not (
            found.versioning_status
            or found.object_lock_enabled
            or found.encryption
            or found.notification_configuration
            or found.policy
        )

    def _put(self, bucket: str, key: str, plain: PlainPut) -> Answer:
        """Put the object into moto's memory, as moto does at the end of its own way."""
        if not plain.is_whole:
            return _error("400 Bad Request", "IncompleteBody", "the body is shorter than its Content-Length")
        etag = hashlib.md5(plain.body, usedforsecurity=False).hexdigest()
        stored = self._backend.put_object(bucket, key, plain.body, etag=etag, disable_notification=True)
        stored.set_metadata(plain.metadata)
        stored.set_acl(self._backend.buckets[bucket].acl)
        self._plain.add(stored)
        return "200 OK", [("ETag", stored.etag), ("Content-Length", "0")], []

    def finish(self) -> None:
        """Wait until a write that has begun is complete."""
        self._lock.acquire()

    def _keep(self, bucket: str, key: str, *, whole_bucket: bool) -> None:
        """Make the disk equal to memory for one object, or for all objects that a bulk delete has removed.

        Objects that remain are not written again: each PUT did that before its response. To write a bucket full of
        small objects would delay every other request for minutes.
        """
        known = self._backend.buckets.get(bucket)
        if known is None:
            self._folder.remove_bucket(bucket)
            self._kept = {entry for entry in self._kept if entry[0] != bucket}
            return
        if not key and not whole_bucket:
            self._folder.add_bucket(bucket)
            return
        if key:
            self._keep_one(bucket, key, known.keys.get(key))
            return
        for name in [name for owner, name in self._kept if owner == bucket and _is_gone(known.keys.get(name))]:
            self._keep_one(bucket, name, None)

    def _take_back(self, bucket: str, key: str) -> None:
        """Make memory equal to the disk again, after the disk refused a change."""
        known = self._backend.buckets.get(bucket)
        if known is None:
            return
        gone = [name for owner, name in self._kept if owner == bucket and _is_gone(known.keys.get(name))]
        for name in [key] if key else gone:
            item = self._folder.get(bucket, name)
            if item is not None:
                self._remember(bucket, item)
            elif name in known.keys:
                self._backend.delete_object(bucket, name)

    def _keep_one(self, bucket: str, name: str, key: Any) -> None:
        if _is_gone(key):
            if (bucket, name) in self._kept:
                self._folder.delete(bucket, name)
                self._kept.discard((bucket, name))
            return
        modified_at = key.last_modified.replace(tzinfo=datetime.UTC).timestamp()
        metadata = {str(field): str(value) for field, value in key.metadata.items()}
        self._folder.put(bucket, StoredObject(name, key.value, metadata, key.etag.strip('"'), modified_at))
        self._kept.add((bucket, name))


def _is_gone(key: Any) -> bool:
    return key is None or type(key).__name__ == "FakeDeleteMarker"


def _error(status: str, code: str, message: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    return status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], [body]


def _names(environ: dict[str, Any]) -> tuple[str, str]:
    """The bucket and the key, both empty where the path has none."""
    bucket, _, key = environ.get("PATH_INFO", "/").lstrip("/").encode("latin-1").decode().partition("/")
    return bucket, key


def _refusal(environ: dict[str, Any]) -> Answer | None:
    problem = http_head.host_problem(environ.get("HTTP_HOST", ""))
    if problem is not None:
        return "400 Bad Request", [("Content-Type", "text/plain")], [f"{problem}\n".encode()]
    if _is_stranger(environ):
        told = b"this S3 serves programs of this machine only: call it at 127.0.0.1, and not from a web page\n"
        return "403 Forbidden", [("Content-Type", "text/plain")], [told]
    return None


def _is_stranger(environ: dict[str, Any]) -> bool:
    """Whether the request comes from a web page or a proxy, or is for moto's own API, which can delete everything.

    There is no authentication here, and moto lets every page read its responses.
    """
    is_page = "HTTP_ORIGIN" in environ or not http_head.is_loopback(environ.get("HTTP_HOST", ""))
    headers = [name.removeprefix("HTTP_").replace("_", "-") for name in environ if name.startswith("HTTP_")]
    is_proxied = http_head.proxy_header(headers) is not None
    return is_page or is_proxied or environ.get("PATH_INFO", "").lstrip("/").startswith("moto-api")


def main() -> int:
    """Serve until SIGTERM. When it listens, it prints one line of JSON: event, port, objects."""
    parser = argparse.ArgumentParser(
        prog="python -m emulator.storage.s3_server", description="moto's S3 with its objects on disk"
    )
    parser.add_argument("--port", type=int, default=0, help="0 means any free port")
    parser.add_argument("--fd", type=int, help="an inherited listening socket, instead of --port")
    parser.add_argument("--dir", type=Path, required=True, help="the folder that keeps the objects")
    parser.add_argument("--bucket", action="append", default=[], help="created at start if missing; may be repeated")
    options = parser.parse_args()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the supervisor decides
    # moto is slow to import and reads the environment: import it after the arguments are checked.
    os.environ.setdefault("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", str(1 << 20))
    with placeholders(*_NOT_FOR_S3):
        import moto.iam.models  # noqa: F401 - every request needs it; the first would import it
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from moto.s3.models import s3_backends

    from emulator.storage.s3_connections import LimitedRequestHandler, LimitedServer

    class Handler(LimitedRequestHandler, MotoRequestHandler):
        """Logs nothing: Litestream sends a hundred requests a minute."""

        disable_nagle_algorithm = True
        wbufsize = -1

        def log(self, type: str, message: str, *args: Any) -> None:
            pass

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    folder = ObjectFolder(options.dir)
    for bucket in options.bucket:
        folder.add_bucket(bucket)
    application = WriteThrough(
        DomainDispatcherApplication(create_backend_app), s3_backends[DEFAULT_ACCOUNT_ID]["aws"], folder
    )
    objects = application.load()
    server = LimitedServer(
        *("127.0.0.1", options.port, application, Handler), fd=options.fd, answer_plainly=application.answer_plainly
    )

    def finish(*_: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, finish)
    print(json.dumps({"event": "s3.ready", "port": server.port, "objects": objects}), flush=True)  # noqa: T201
    with contextlib.suppress(SystemExit):
        server.serve_forever()
    application.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
