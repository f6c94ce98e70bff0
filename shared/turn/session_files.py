"""The files of a session: ``sessions/<id>/inbox`` has what people sent, ``sessions/<id>/outbox`` what the agent sends.

Both are in the agent's folder, which its program may change at any time: it could put a link in the place of a file or
of a folder. So every step down is taken from an open folder and follows no link, and what is sent is a copy that the
program can't reach.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

INBOX, OUTBOX = "inbox", "outbox"
LARGEST_BYTES = 50 * 1024 * 1024  # of a file that an agent sends

_TOO_LARGE = f"it is larger than {LARGEST_BYTES // 1024**2} MiB"
_SESSIONS = "sessions"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20


class NotSendable(Exception):
    """The file can't be sent; the message is a part of a sentence for people, without a path of this host."""


def folder_of(agent_folder: Path, session: str, box: str) -> Path:
    """The path of the session's inbox or outbox."""
    return agent_folder / _SESSIONS / session / box


@contextlib.contextmanager
def made(agent_folder: Path, session: str, *names: str) -> Iterator[int]:
    """The open folder ``sessions/<session>/<names…>``, made where it is missing.

    Raises:
        OSError: something else stands in its place, such as a link.
    """
    with contextlib.ExitStack() as opened:
        current = _open(opened, str(agent_folder), None)
        for name in (_SESSIONS, session, *names):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=current)
            current = _open(opened, name, current)
        yield current


def make_outbox(agent_folder: Path, session: str) -> None:
    """Make the outbox of the session where it is missing; a link in its place stays, and then nothing can be sent."""
    with contextlib.suppress(OSError), made(agent_folder, session, OUTBOX):
        pass


def _open(opened: contextlib.ExitStack, name: str, parent: int | None) -> int:
    folder = os.open(name, _FOLDER, dir_fd=parent)
    opened.callback(os.close, folder)
    return folder


def write_new(folder: int, name: str, content: bytes) -> None:
    """Write a new file into the open *folder*.

    Raises:
        OSError: it is there already, or can't be written.
    """
    with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)


def copy_from_outbox(agent_folder: Path, session: str, wanted: str, target: Path | None) -> Path | None:
    """Copy the file that the agent names to the folder *target*, which is made; the path of the copy.

    Args:
        wanted: relative to the outbox; the outbox's own path may stand before it.
        target: None: only see that the file could be sent.

    Raises:
        NotSendable: it is no plain file of the outbox, or is too large.
        OSError: the copy can't be written.
    """
    parts = _parts(agent_folder, session, wanted)
    with contextlib.ExitStack() as opened:
        try:
            current = _open(opened, str(agent_folder), None)
            for name in (_SESSIONS, session, OUTBOX, *parts[:-1]):
                current = _open(opened, name, current)
            source = opened.enter_context(os.fdopen(os.open(parts[-1], _FILE, dir_fd=current), "rb"))
        except OSError:
            raise NotSendable("there is no such file in the outbox") from None
        _check(os.fstat(source.fileno()))
        return None if target is None else _copied(source, target, safe_name(parts[-1]))


def _check(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:  # a second name may be that of a foreign file
        raise NotSendable("it is no plain file of the outbox")
    if found.st_size > LARGEST_BYTES:
        raise NotSendable(_TOO_LARGE)


def _parts(agent_folder: Path, session: str, wanted: str) -> tuple[str, ...]:
    path = PurePosixPath(wanted)
    outbox = PurePosixPath(folder_of(agent_folder, session, OUTBOX))
    for prefix in (outbox, outbox.relative_to(PurePosixPath(agent_folder)), PurePosixPath(OUTBOX)):
        if path.is_relative_to(prefix):
            path = path.relative_to(prefix)
            break
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in wanted:
        raise NotSendable("only files of the outbox can be sent")
    return path.parts


def _copied(source: BinaryIO, target: Path, name: str) -> Path:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _free(target, name)
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as copy:
        size = 0
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > LARGEST_BYTES:
                path.unlink()
                raise NotSendable(_TOO_LARGE)
            copy.write(piece)
    return path


def new_file(target: Path, name: str, content: bytes) -> Path:
    """Write a new file of our own into the folder *target*, which is made; its path.

    Raises:
        OSError: it can't be written.
    """
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _free(target, name)
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(content)
    return path


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
