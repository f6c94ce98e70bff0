"""The files of a session: ``sessions/<id>/inbox`` has what people sent, ``sessions/<id>/outbox`` what the agent sends.

Both are in the agent's folder, which its program may change at any time: it could put a link in the place of a file or
of a folder. So every step down is taken from an open folder and follows no link, and what is sent is a copy that the
program can't reach.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from shared.agents import own_files
from shared.agents.base import outbox, session_folder
from shared.core import durability

INBOX, OUTBOX = "inbox", "outbox"
LARGEST_BYTES = 50 * 1024 * 1024  # of a file that an agent sends
LARGEST_RECEIVED_BYTES = 20 * 1024 * 1024  # of a file that an agent gets

_TOO_LARGE = f"it is larger than {LARGEST_BYTES // 1024**2} MiB"
_EMPTY = "it is empty"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20


class NotSendable(Exception):
    """The file can't be sent; the message is a part of a sentence for people, without a path of this host."""


def folder_of(agent_folder: Path, session: str, box: str) -> Path:
    """The path of the session's inbox or outbox."""
    return agent_folder / session_folder(session) / box


@contextlib.contextmanager
def open_folder(agent_folder: Path, session: str, *names: str) -> Iterator[int]:
    """The open folder ``sessions/<session>/<names…>``, made where it is missing.

    Raises:
        OSError: something else stands in its place, such as a link.
    """
    with own_files.folder(agent_folder, "/".join((session_folder(session), *names)), make=True) as opened:
        yield opened


def make_outbox(agent_folder: Path, session: str) -> None:
    """Make the outbox of the session where it is missing; a link in its place stays, and then nothing can be sent."""
    with contextlib.suppress(OSError), open_folder(agent_folder, session, OUTBOX):
        pass


def write_new(folder: int, name: str, content: bytes) -> None:
    """Write a new file into the open *folder*.

    Raises:
        OSError: it is there already, or can't be written.
    """
    with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)


def copy_from_outbox(agent_folder: Path, session: str, wanted: str, target: Path | None) -> Path | None:
    """Copy the file that the agent names to the folder *target*, which is made; the path of the copy, on the disk.

    Args:
        wanted: relative to the outbox; the outbox's own path may stand before it.
        target: None: only see that the file could be sent.

    Raises:
        NotSendable: it is no plain file of the outbox, empty, or too large.
        OSError: the copy can't be written.
    """
    parts = _parts(agent_folder, session, wanted)
    try:
        with own_files.folder(agent_folder, "/".join((outbox(session), *parts[:-1])), make=False) as opened:
            source = own_files.open_plain(opened, parts[-1])
    except OSError as error:
        is_other = error.errno == errno.EINVAL
        raise NotSendable(
            "it is no plain file of the outbox" if is_other else "there is no such file in the outbox"
        ) from None
    with source:
        size = os.fstat(source.fileno()).st_size
        if size > LARGEST_BYTES:
            raise NotSendable(_TOO_LARGE)
        if size == 0:
            raise NotSendable(_EMPTY)
        return None if target is None else _copy(source, target, safe_name(parts[-1]))


def _parts(agent_folder: Path, session: str, wanted: str) -> tuple[str, ...]:
    path = PurePosixPath(wanted)
    whole = PurePosixPath(folder_of(agent_folder, session, OUTBOX))
    for prefix in (whole, PurePosixPath(outbox(session)), PurePosixPath(OUTBOX)):
        if path.is_relative_to(prefix):
            path = path.relative_to(prefix)
            break
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in wanted:
        raise NotSendable("only files of the outbox can be sent")
    return path.parts


def _copy(source: BinaryIO, target: Path, name: str) -> Path:
    _make(target)
    path = _free(target, name)
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as copy:
        size = 0
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > LARGEST_BYTES:
                path.unlink()
                raise NotSendable(_TOO_LARGE)
            copy.write(piece)
        sync(copy)
    durability.sync(target)
    return path


def new_file(target: Path, name: str, content: bytes) -> Path:
    """Write a new file of our own into the folder *target*, which is made; its path. It is on the disk.

    Raises:
        OSError: it can't be written.
    """
    _make(target)
    path = _free(target, name)
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(content)
        sync(file)
    durability.sync(target)
    return path


def _make(target: Path) -> None:
    """Make the folder, and the one above it, for their owner alone."""
    for folder in (target.parent, target):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            durability.sync(folder.parent)


def sync(file: BinaryIO) -> None:
    """Return when the content of *file* is on the disk: a row that names the file is, once it is committed."""
    file.flush()
    os.fsync(file.fileno())


def _free(folder: Path, name: str) -> Path:
    taken = {each.name.lower() for each in folder.iterdir()}
    return folder / unlike(name, taken)


def unlike(name: str, taken: set[str]) -> str:
    """*name*, or with ``-2`` and so on before its ending where another has it, whatever the case. Pure."""
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    number, made_of = 1, name
    while made_of.lower() in taken:
        number += 1
        made_of = f"{stem}-{number}{dot}{ending}"
    return made_of


_LONGEST_NAME = 120  # bytes
_UNSAFE = frozenset('/\\:*?"<>|\0')


def safe_name(name: str) -> str:
    """*name* as a file's name: no path, no characters that steer, no hidden file, no option of a command. Pure."""
    printable = "".join("_" if each in _UNSAFE or not each.isprintable() else each for each in name)
    plain = printable.strip(" .").lstrip("-~").strip()
    stem, dot, ending = plain.rpartition(".")
    if not stem:
        stem, dot, ending = plain, "", ""
    ending = _cut(ending, 20)
    return f"{_cut(stem, _LONGEST_NAME - len(ending.encode()) - 1) or 'file'}{dot}{ending}"


def _cut(text: str, most: int) -> str:
    return text.encode("utf-8", "ignore")[:most].decode("utf-8", "ignore")
