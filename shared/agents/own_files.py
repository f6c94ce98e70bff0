"""Files that Postroom itself puts into an agent's folder, and reads there. The agent may write there too, so no link of
its making is followed: a file is below the folder, or is not touched at all.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from shared.core.errors import ConfigInvalid

_INSTRUCTIONS = ("agents.md", "claude.md", "claude.local.md")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_read_by_programs(path: str) -> bool:
    """Whether agents' programs read such a file by themselves, as instructions: an import brings none. Pure."""
    return path.rpartition("/")[2].lower() in _INSTRUCTIONS


def make_folder(agent_folder: Path, name: str) -> Path:
    """The folder *name*, such as ``sessions/SESSION/claude``, which exists from now on.

    Raises:
        ConfigInvalid: a link, or something that is no folder, stands in the way.
    """
    with _ours(agent_folder, name):
        return agent_folder / name


def write(agent_folder: Path, name: str, text: str) -> Path:
    """Write the file *name*, such as ``sessions/SESSION/codex/config.toml``, in place of what is there.

    Raises:
        ConfigInvalid: a link, or something that is no folder, stands in the way.
    """
    parent, _, last = name.rpartition("/")
    with _ours(agent_folder, parent) as parent_fd:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last, dir_fd=parent_fd)
        with os.fdopen(os.open(last, _FILE, 0o600, dir_fd=parent_fd), "w", encoding="utf-8") as file:
            file.write(text)
    return agent_folder / name


def write_new(folder_fd: int, name: str, wanted: bytes) -> Literal["made", "there", "other"]:
    """Write the file *name* of an open folder where nothing is yet; else whether it has these bytes, or ``other``.

    The file gets its name when it is whole and on the disk. Of a process that dies before, a hidden file is left, which
    the next call removes.

    Raises:
        OSError: it is no plain file, or the disk refuses it; nothing is left of a half-written one.
    """
    fresh = f".{name[:60]}.new"
    _remove(folder_fd, fresh)  # it may be a second name of *name*
    with contextlib.suppress(FileNotFoundError), open_plain(folder_fd, name) as known:
        return "there" if known.read(len(wanted) + 1) == wanted else "other"
    try:
        with os.fdopen(os.open(fresh, _FILE, 0o600, dir_fd=folder_fd), "wb") as file:
            file.write(wanted)
            file.flush()
            os.fsync(file.fileno())
        os.link(fresh, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
    finally:
        _remove(folder_fd, fresh)
    return "made"


def link(agent_folder: Path, name: str, target: Path) -> None:
    """Make the link *name* to *target*, where nothing is yet.

    Raises:
        ConfigInvalid: a link, or something that is no folder, stands in the way.
    """
    parent, _, last = name.rpartition("/")
    with _ours(agent_folder, parent) as parent_fd:
        os.symlink(target, last, dir_fd=parent_fd)


def read(agent_folder: Path, name: str, *, most_bytes: int) -> bytes | None:
    """What the file *name* has; None: it is larger, no plain file, gone, or behind a link."""
    found = read_beginning(agent_folder, name, most_bytes=most_bytes + 1)
    return found[0] if found is not None and len(found[0]) <= most_bytes else None


def read_beginning(agent_folder: Path, name: str, *, most_bytes: int) -> tuple[bytes, int] | None:
    """The first bytes of the file *name*, and how many it has in all; None: no plain file, gone, or behind a link."""
    parent, _, last = name.rpartition("/")
    try:
        with folder(agent_folder, parent, make=False) as parent_fd:
            file = open_plain(parent_fd, last)
    except OSError:
        return None
    with file:
        return file.read(most_bytes), os.fstat(file.fileno()).st_size


def read_path(agent_folder: Path, path: Path, *, most_bytes: int) -> bytes | None:
    """``read`` of a path that is below the agent's folder; None where it is not."""
    if not path.is_relative_to(agent_folder):
        return None
    return read(agent_folder, path.relative_to(agent_folder).as_posix(), most_bytes=most_bytes)


def clear(agent_folder: Path, name: str) -> None:
    """Remove the folder *name* and all that is in it, where it is; of a link in its place the link only."""
    parent, _, last = name.rpartition("/")
    with contextlib.suppress(OSError), folder(agent_folder, parent, make=False) as parent_fd:
        if stat.S_ISDIR(os.stat(last, dir_fd=parent_fd, follow_symlinks=False).st_mode):
            shutil.rmtree(last, dir_fd=parent_fd)
        else:
            os.unlink(last, dir_fd=parent_fd)


def remove(agent_folder: Path, name: str) -> None:
    """Remove the file *name*, where it is."""
    parent, _, last = name.rpartition("/")
    with contextlib.suppress(OSError), folder(agent_folder, parent, make=False) as parent_fd:
        os.unlink(last, dir_fd=parent_fd)


def _remove(folder_fd: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder_fd)


def open_plain(folder_fd: int, name: str) -> BinaryIO:
    """The file *name* of an open folder, to read. A second name of a file counts as a link: it may be a foreign file's.

    Raises:
        OSError: it is no plain file, or gone.
    """
    fd = os.open(name, _PLAIN, dir_fd=folder_fd)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no plain file", name)
    return os.fdopen(fd, "rb")


@contextlib.contextmanager
def folder(agent_folder: Path, name: str, *, make: bool) -> Iterator[int]:
    """The open folder *name* below the agent's.

    Args:
        make: make it where it is missing.

    Raises:
        OSError: it is missing, or something else stands in its place, such as a link.
    """
    fd = _descend(agent_folder, name, make=make)
    try:
        yield fd
    finally:
        os.close(fd)


def _descend(agent_folder: Path, name: str, *, make: bool) -> int:
    fd = os.open(agent_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in filter(None, name.split("/")):
        try:
            if part == "..":
                raise OSError(errno.ENOTDIR, "it leads out of its folder", name)
            below = _open_or_make(part, fd) if make else os.open(part, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _open_or_make(name: str, parent: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        return os.open(name, _FOLDER, dir_fd=parent)


@contextlib.contextmanager
def _ours(agent_folder: Path, name: str) -> Iterator[int]:
    """``folder`` for what only Postroom puts there: something in the way is a sentence for the operator."""
    try:
        fd = _descend(agent_folder, name, make=True)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise ConfigInvalid(
            f"{error.filename!r} in {str(agent_folder / name)!r} is a link or no folder, and Postroom keeps files "
            "there: remove it"
        ) from None
    try:
        yield fd
    finally:
        os.close(fd)
