"""The objects of the emulator's S3: files, and an index of them in memory."""

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from shared.core import durability

_MAX_NAME = 200  # file systems take 255 bytes; a temporary suffix must fit too
_SUFFIX = ".object"
_BUCKET = re.compile(r"[a-z0-9]([a-z0-9-]|\.(?!\.))*")  # stricter than S3: each is a folder


@dataclass(frozen=True, slots=True, eq=False)
class StoredObject:
    """One object as it stands on disk: two of them are the same only if they were written by one request.

    Attributes:
        metadata: the content type and the user's metadata, by their names in lower case. A point-in-time restore
            depends on Litestream's ``x-amz-meta-litestream-timestamp``.
        modified_at: in seconds UTC.
    """

    key: str
    size: int
    metadata: Mapping[str, str]
    etag: str
    modified_at: float


class ObjectFolder:
    """Objects as files: ``DIR/bucket/quoted-key.object``, a line of JSON and then the body.

    A change is on disk when its method returns. A caller that reads, decides and then writes holds ``lock``.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.lock = threading.RLock()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._index = {entry.name: self._load(entry) for entry in sorted(root.iterdir()) if entry.is_dir()}

    @property
    def buckets(self) -> Mapping[str, Mapping[str, StoredObject]]:
        """The objects of every bucket, by their keys."""
        return self._index

    def find(self, bucket: str, key: str) -> StoredObject | None:
        """The object; None if there is none."""
        return self._index.get(bucket, {}).get(key)

    def add_bucket(self, bucket: str) -> None:
        """Create the bucket if it does not exist."""
        self._bucket(bucket).mkdir(exist_ok=True, mode=0o700)
        durability.sync(self._root)
        self._index.setdefault(bucket, {})

    def remove_bucket(self, bucket: str) -> None:
        """Remove the bucket and what is in it; a missing bucket is no error."""
        folder = self._bucket(bucket)
        if folder.is_dir():
            for leftover in folder.iterdir():
                leftover.unlink()
            folder.rmdir()
            durability.sync(self._root)
        self._index.pop(bucket, None)

    def put(self, bucket: str, item: StoredObject, body: Iterable[bytes]) -> StoredObject:
        """Write the object so that a crash leaves the old or the new version, never a part.

        Args:
            body: in pieces; their length becomes the size of the object.

        Raises:
            OSError: the disk refuses it; the old version stays.
        """
        target = self._path(bucket, item.key)
        temporary = target.with_name(f"{target.name}.tmp")
        head = {"key": item.key, "metadata": item.metadata, "etag": item.etag, "modified_at": item.modified_at}
        with self.lock:
            with temporary.open("wb") as file:
                file.write(json.dumps(head).encode() + b"\n")
                item = replace(item, size=sum(map(file.write, body)))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            durability.sync(target.parent)
            self._index[bucket][item.key] = item
        return item

    def keep_part(self, bucket: str, name: str, body: bytes) -> Path:
        """Write a part of an object that is not complete yet: a file that does not outlive a restart."""
        path = self._bucket(bucket) / f"{name}.part"
        path.write_bytes(body)
        return path

    def delete(self, bucket: str, key: str) -> None:
        """Remove the object; a missing object is no error."""
        with self.lock:
            self._path(bucket, key).unlink(missing_ok=True)
            self._index[bucket].pop(key, None)

    def read(self, bucket: str, key: str, first: int = 0, length: int = -1) -> tuple[StoredObject, bytes] | None:
        """The object and *length* bytes of its body from *first* on (-1: all); None if there is no object."""
        try:
            with self._path(bucket, key).open("rb") as file:
                item = _facts(file)
                file.seek(first, os.SEEK_CUR)
                return item, file.read(length)
        except FileNotFoundError:
            return None

    def _load(self, folder: Path) -> dict[str, StoredObject]:
        """Every object of a bucket; removes the half-written files of a crash."""
        found = {}
        for path in sorted(folder.iterdir()):
            if path.suffix != _SUFFIX:
                path.unlink()
                continue
            with path.open("rb") as file:
                item = _facts(file)
            found[item.key] = item
        return found

    def _path(self, bucket: str, key: str) -> Path:
        name = quote(key, safe="")
        if len(name) > _MAX_NAME:
            name = "sha256-" + hashlib.sha256(key.encode()).hexdigest()
        return self._bucket(bucket) / (name + _SUFFIX)

    def _bucket(self, name: str) -> Path:
        if not _BUCKET.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid bucket name")
        return self._root / name


def _facts(file: Any) -> StoredObject:
    """Read the first line of the open file; the body follows."""
    facts = json.loads(file.readline())
    size = os.fstat(file.fileno()).st_size - file.tell()
    return StoredObject(facts["key"], size, facts["metadata"], facts["etag"], facts["modified_at"])
