"""The files of a response: described when handed over, kept in ``responses.files``, looked at before they go out.

What a row says of a file stays as it was when the file was handed over, so that a retry renders the same parts.
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from shared.channels.base import FileKind, FileLimits, OutgoingFile
from shared.channels.downloads import megabytes
from shared.core import media_types

_KINDS: Mapping[str, FileKind] = {
    "image/png": "photo",
    "image/jpeg": "photo",
    "image/webp": "photo",
    "image/gif": "animation",
    "video/mp4": "video",
    "audio/mpeg": "audio",
    "audio/mp4": "audio",
    "audio/ogg": "voice",
}
KINDS: tuple[FileKind, ...] = get_args(FileKind)


def described(path: Path, *, kind: FileKind | None = None) -> OutgoingFile:
    """The file at *path*, which is a copy that only we write. Reads its first bytes: not for the loop.

    Args:
        kind: how it should appear; None: by its content.

    Raises:
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        first = file.read(media_types.FIRST_BYTES)
        size = os.fstat(file.fileno()).st_size
    media_type = media_types.of(first, media_types.of_name(path.name))
    return OutgoingFile(path, path.name, media_type, size, kind or _KINDS.get(media_type, "document"))


def encode(files: Iterable[OutgoingFile]) -> str:
    """The text for the column."""
    return json.dumps([
        {"path": str(each.path), "name": each.name, "type": each.media_type, "size": each.size, "kind": each.kind}
        for each in files
    ])  # fmt: skip


def decode(stored: Sequence[Any]) -> tuple[OutgoingFile, ...]:
    """The files of a row. Those of an earlier release are paths alone.

    Raises:
        KeyError, TypeError, ValueError: the column holds something else.
    """
    return tuple(_decoded(each) for each in stored)


def _decoded(stored: Any) -> OutgoingFile:
    if isinstance(stored, str):
        path = Path(stored)
        return OutgoingFile(path, path.name, media_types.of_name(path.name) or media_types.UNKNOWN, 0)
    if stored["kind"] not in KINDS:
        raise ValueError(f"a file has the unknown kind {stored['kind']!r}")
    kind = cast("FileKind", stored["kind"])
    return OutgoingFile(Path(stored["path"]), str(stored["name"]), str(stored["type"]), int(stored["size"]), kind)


def problems(files: Iterable[OutgoingFile], limits: FileLimits | None) -> dict[Path, str]:
    """Why some of *files* can't be sent, by their paths. Looks at the disk: not for the loop."""
    found = {each.path: _problem(each, limits) for each in files}
    return {path: problem for path, problem in found.items() if problem is not None}


def _problem(file: OutgoingFile, limits: FileLimits | None) -> str | None:
    if limits is None:
        return "this channel can't send files"
    try:
        now = file.path.lstat()
    except OSError:
        return "it is no longer on this host"
    if not stat.S_ISREG(now.st_mode) or now.st_size != file.size:
        return "it was changed after it was handed over"
    return too_large(file.size, file.kind, limits)


def too_large(size: int, kind: FileKind, limits: FileLimits) -> str | None:
    """Why the platform would not take a file of so many bytes; None: it takes it. Pure.

    A kind with a smaller limit of its own can still go out as a document.
    """
    most = max(limits.most(kind), limits.most_bytes)
    return f"it is larger than {megabytes(most)}, the most that this channel takes" if size > most else None
