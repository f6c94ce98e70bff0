"""Where a mart lies: a folder or a bucket. A place writes the files of a new generation, and makes it visible at once.

In a folder each generation is a folder of hard links, and the symbolic link ``current`` names the present one::

    MART/current -> generations/000007
    MART/generations/000007/manifest.json
    MART/generations/000007/messages/day=2026-03-01/000003-5f2c-0.parquet

In a bucket the files of all generations lie side by side, and ``manifest.json`` names those of the present one.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from shared.core import durability
from spark_jobs.command_line import locked_folder
from spark_jobs.mart.manifest import NAME, MartInvalid, MartManifest
from spark_jobs.replicas.bucket import open_bucket, read_object, replace_object

_GENERATION = re.compile(r"(?:^|/)([0-9]{6,})-[0-9a-f]+-[0-9]+\.parquet$")


class MartPlace(Protocol):
    """A mart's files. Names are relative to the manifest."""

    files: Any  # pyarrow's file system
    base: str  # of the present generation, in *files*
    root: str  # of all generations

    def begin(self) -> MartManifest | None:
        """Begin to write; the present generation, or None where there is none yet."""

    def new_file(self, name: str, schema: pa.Schema) -> Any:
        """A Parquet writer for a file of the next generation."""

    def commit(self, manifest: MartManifest, before: MartManifest | None, *, forget: bool = False) -> None:
        """Make *manifest* the present generation. Readers of the one before can go on, unless *forget*."""


@contextmanager
def opened(place: str) -> Iterator[MartPlace]:
    """The place that *place* names, a folder or ``s3://bucket/prefix?endpoint=...``, to write to.

    Raises:
        InUse: another run writes there.
    """
    if place.startswith("s3://"):
        yield _Bucket(place)
        return
    root = folder_of(place)
    with locked_folder(root):
        folder = _Folder(root)
        yield folder
        folder.end()


def folder_of(place: str) -> Path:
    """The folder that a path or a ``file://`` URL names."""
    return Path(unquote(urlsplit(place).path) if place.startswith("file://") else place).expanduser().absolute()


class _Folder:
    def __init__(self, root: Path) -> None:
        self.files = fs.LocalFileSystem()
        self._root, self._link = root, root / "current"
        self._next = root / "generations" / "next"
        self.base, self.root = str(self._link.resolve()), str(self._next.parent)

    def begin(self) -> MartManifest | None:
        shutil.rmtree(self._next, ignore_errors=True)
        self._next.mkdir(mode=0o700, parents=True)
        path = Path(self.base) / NAME
        return MartManifest.from_json(path.read_bytes()) if path.exists() else None

    def new_file(self, name: str, schema: pa.Schema) -> Any:
        path = self._next / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return pq.ParquetWriter(str(path), schema, compression="zstd")

    def commit(self, manifest: MartManifest, before: MartManifest | None, *, forget: bool = False) -> None:
        for name in manifest.files & (before.files if before else frozenset()):
            target = self._next / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.link(Path(self.base) / name, target)
        path = self._next / NAME
        path.touch(mode=0o600)
        path.write_bytes(manifest.to_json())
        for written in self._next.rglob("*"):
            durability.sync(written)
        whole = self._next.with_name(f"{manifest.generation:06d}")
        shutil.rmtree(whole, ignore_errors=True)  # of a run that ended before it became the present one
        self._next.rename(whole)
        link = self._root / "current.next"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("generations") / whole.name)
        link.replace(self._link)
        durability.sync(self._root)
        self._delete_old(whole.name, keep_before=not forget)

    def end(self) -> None:
        shutil.rmtree(self._next, ignore_errors=True)

    def _delete_old(self, present: str, *, keep_before: bool) -> None:
        kept = {present, Path(self.base).name} if keep_before else {present}
        for old in (self._root / "generations").iterdir():
            if old.name not in kept:
                shutil.rmtree(old, ignore_errors=True)


class _Bucket:
    def __init__(self, url: str) -> None:
        self._url, self._tag = url, ""
        self.files, self.base = open_bucket(url)
        self.root = self.base

    def begin(self) -> MartManifest | None:
        found = read_object(self._url, NAME)
        self._tag = found[1] if found else ""
        return MartManifest.from_json(found[0]) if found else None

    def new_file(self, name: str, schema: pa.Schema) -> Any:
        return pq.ParquetWriter(f"{self.base}/{name}", schema, filesystem=self.files, compression="zstd")

    def commit(self, manifest: MartManifest, before: MartManifest | None, *, forget: bool = False) -> None:
        replace_object(self._url, NAME, manifest.to_json(), self._tag or None)
        kept = manifest.files | (before.files if before and not forget else frozenset())
        selector = fs.FileSelector(self.base, recursive=True, allow_not_found=True)
        for found in self.files.get_file_info(selector):
            name = found.path.removeprefix(f"{self.base}/")
            written = _GENERATION.search(name)
            # A later generation is one that another run writes at this moment.
            if written and name not in kept and int(written[1]) <= manifest.generation:
                self.files.delete_file(found.path)


def file_name(table: str, day: str, generation: int, run: str, number: int) -> str:
    """The name of a new file. No other run, also of the same generation, gives it to a file."""
    folder = table if not day else f"{table}/day={day}"
    return f"{folder}/{generation:06d}-{run}-{number}.parquet"


def new_run() -> str:
    return secrets.token_hex(4)


def present(place: str) -> tuple[MartManifest, Any, str]:
    """The present generation for a reader: its manifest, pyarrow's file system, and the folder of its files.

    Raises:
        MartInvalid: there is no mart.
    """
    if place.startswith("s3://"):
        files, base = open_bucket(place)
        found = read_object(place, NAME)
        body = found[0] if found else None
    else:
        files, base = fs.LocalFileSystem(), str((folder_of(place) / "current").resolve())
        path = Path(base) / NAME
        body = path.read_bytes() if path.exists() else None
    if body is None:
        raise MartInvalid(
            f"there is no mart at {place.partition('?')[0]}: make one with `python -m spark_jobs publish`"
        )
    return MartManifest.from_json(body), files, base
