"""How much memory a program and all that it started hold."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


_IN_MEMORY = ("tmp", "dev/shm")  # of a sandbox


def of_tree(pid: int, *, has_own_folders: bool = False) -> int:
    """Bytes of resident memory of *pid* and its descendants; pages that they share count for each of them.

    Args:
        has_own_folders: *pid* is a bubblewrap, whose child has folders in memory of its own: they count too.

    Linux only (``/proc``); elsewhere 0.
    """
    total = 0
    for process in tree(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int((process / "statm").read_text().split()[1]) * _PAGE
    first = _children(Path("/proc", str(pid))) if has_own_folders else []
    return total + sum(_of_folder(child, name) for child in first for name in _IN_MEMORY)


def tree(pid: int) -> Iterator[Path]:
    """The folders in ``/proc`` of *pid* and its descendants."""
    open_ = [str(pid)]
    while open_:
        process = Path("/proc", open_.pop())
        yield process
        open_ += _children(process)


def _children(process: Path) -> list[str]:
    found: list[str] = []
    with contextlib.suppress(OSError):  # it has just ended
        for task in (process / "task").iterdir():
            found += (task / "children").read_text().split()
    return found


def _of_folder(first_process: str, name: str) -> int:
    """Bytes that are used in a folder of a sandbox; 0 as long as nothing is mounted there, or what is mounted here."""
    path = Path("/proc", first_process, "root", name)
    try:
        if path.stat().st_dev in (path.parent.stat().st_dev, Path("/", name).stat().st_dev):
            return 0
        found = os.statvfs(path)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize
