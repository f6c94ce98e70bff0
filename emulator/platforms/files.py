"""Files on the fake platforms: the bytes that people and bots upload, kept until the emulator's data is reset.

A message names its files in ``detail["files"]``: a list of objects with ``id`` (here), ``kind`` (``photo document video
audio voice animation video_note sticker``), ``name``, ``mime`` and ``size``, and ``width height duration`` where known.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import apsw
import msgspec

SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, mime TEXT NOT NULL, data BLOB NOT NULL, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""


class StoredFile(msgspec.Struct, frozen=True):
    """One file; *mime* is its media type."""

    id: str
    name: str
    mime: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def shown(self, kind: str, **more: Any) -> dict[str, Any]:
        """The object for ``detail["files"]`` of a message."""
        known = {"id": self.id, "kind": kind, "name": self.name, "mime": self.mime, "size": self.size}
        return {**known, **{key: value for key, value in more.items() if value is not None}}


class FileStore:
    """The rows of ``files``."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        conn.execute(SCHEMA)

    def add(self, name: str, mime: str, data: bytes, *, now_ms: int) -> StoredFile:
        """Keep *data*. The same bytes under the same name are the same file."""
        file_id = hashlib.sha256(b"\0".join((name.encode(), mime.encode(), data))).hexdigest()[:24]
        self._conn.execute(
            "INSERT OR IGNORE INTO files (id, name, mime, data, created_ms) VALUES (?, ?, ?, ?, ?)",
            (file_id, name, mime, data, now_ms),
        )
        return StoredFile(file_id, name, mime, data)

    def get(self, file_id: str) -> StoredFile | None:
        row = self._conn.execute("SELECT id, name, mime, data FROM files WHERE id = ?", (file_id,)).fetchone()
        return StoredFile(*row) if row else None


def of(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files of a message, from its detail."""
    return list(detail.get("files", ()))
