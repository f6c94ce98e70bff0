"""Small objects beside a replica in a folder."""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from heapq import nsmallest
from pathlib import Path

from shared.db.engine.owner_only import make_folder
from shared.db.replica.request_counts import RequestCounter
from shared.db.replica.stored_objects import ListedObject, ObjectChanged, ReplicaObject, StoreRefused


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
