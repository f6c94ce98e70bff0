"""Small objects beside a replica, in an S3 bucket or in a folder: read, listed, and written only if unchanged.

Litestream moves the data. These objects say which machine may (``shared/db/replica/lease_record.py``), and this is how
old data is removed. A write names the version that it replaces (``If-Match``, or ``If-None-Match: *``), so of two
writers exactly one succeeds. The age of an object comes from the store's clock: two machines need not agree about the
time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from shared.core.errors import ConfigInvalid
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.request_counts import RequestCounter
from shared.db.replica.s3_store import S3ObjectStore
from shared.db.replica.stored_objects import ListedObject, ReplicaObject


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
