"""How much disk the folders of a turn hold, and the end of a turn that writes too much.

The kernel has no such limit for a folder, so a run looks. To look costs a walk through the folders: it is taken once,
and again only when the free space of the disk has shrunk by what was left to the limit.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from shared.agents.programs import memory

_BLOCK = 512  # of st_blocks, whatever the disk has: stat(2)
_AT_LEAST = 4096  # for an entry: also empty files fill a disk


class _File(NamedTuple):
    """A plain file, and what it takes."""

    size: int
    device: int
    number: int
    changed_ns: int


class DiskWatch:
    """Of one run.

    Args:
        folders: where the program may write.
        limit_bytes: of all of them.
        pid: of the program's outermost process.
    """

    def __init__(self, folders: Sequence[Path], limit_bytes: int, pid: int) -> None:
        self._folders = folders
        self._pid = pid
        self._limit = limit_bytes
        self._enough_free: int | None = None  # with more free space than this, the limit can't have been reached

    def is_over(self) -> bool:
        """Whether the folders hold more than the limit. May take a while, so call it in a thread."""
        if self._enough_free is not None and _free(self._folders) > self._enough_free:
            return False
        free = _free(self._folders)
        held = sum(each.size for each in _entries(self._folders))
        left = self._limit - held - _of_deleted_files(self._pid, self._folders[0].stat().st_dev)
        self._enough_free = free - left
        return left < 0

    def undo(self, since_ns: int) -> None:
        """Delete what was written since that instant, the largest files first, until the folders hold what they may.

        No program of the turn runs any more. One of another session may: nothing is followed that it puts in the way.
        """
        entries = list(_entries(self._folders))
        excess = sum(each.size for each in entries) - self._limit
        unwanted: set[tuple[int, int]] = set()
        for each in sorted(entries, reverse=True):
            if excess <= 0:
                break
            if each.changed_ns >= since_ns and each.number:
                unwanted.add((each.device, each.number))
                excess -= each.size
        for _, _, names, folder in _walk(self._folders):
            for name in names:
                found = _looked_at(name, folder)
                if found is not None and (found.st_dev, found.st_ino) in unwanted:
                    os.unlink(name, dir_fd=folder)


def size_of(found: os.stat_result) -> int:
    """The bytes of the disk that a file takes."""
    return max(found.st_blocks * _BLOCK, _AT_LEAST)


def _free(folders: Sequence[Path]) -> int:
    found = os.statvfs(folders[0])
    return found.f_bavail * found.f_frsize


def _walk(folders: Sequence[Path]) -> Iterator[tuple[str, list[str], list[str], int]]:
    for folder in folders:
        for found in os.fwalk(folder):
            for name in found[1]:
                make_readable(name, found[3])
            yield found


def make_readable(name: str, folder: int) -> None:
    """A folder that can't be read would hide what the program wrote there."""
    try:
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:  # it has just gone, or is a link
        return
    try:
        if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IRWXU)  # noqa: PTH101 - the open folder, whatever has its name now
    except PermissionError:  # of another user
        return
    finally:
        os.close(fd)


def _of_deleted_files(pid: int, device: int) -> int:
    """Bytes of files that only a process of the program still has open."""
    found: dict[int, int] = {}
    for process in memory.tree(pid):
        with contextlib.suppress(OSError):  # it has just ended
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    of = link.stat()
                    if of.st_nlink == 0 and of.st_dev == device and stat.S_ISREG(of.st_mode):
                        found[of.st_ino] = of.st_blocks * _BLOCK
    return sum(found.values())


def _entries(folders: Sequence[Path]) -> Iterator[_File]:
    for _, below, names, folder in _walk(folders):
        for _ in below:
            yield _File(_AT_LEAST, 0, 0, 0)
        for name in names:
            found = _looked_at(name, folder)
            if found is not None:
                yield _File(size_of(found), found.st_dev, found.st_ino, found.st_ctime_ns)


def _looked_at(name: str, folder: int) -> os.stat_result | None:
    """None: it is a link, a pipe or the like, or has just gone."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None
