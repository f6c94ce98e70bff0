"""Removes Litestream's local copies of files that have been in the bucket for a while.

Litestream 0.5.17 keeps each file of level 0 in its local state for as long as in the bucket: an hour, by
``l0-retention`` in ``infra/litestream.yml``. Each sync lists that folder twice and parses every name, which costs 4
microseconds of CPU for each file. Measured: after 3800 files a sync cost 18 ms of CPU in place of 3.9, and took 37 ms
in place of 10. Ten uploads a second for an hour leave 36 000 files, and need more than one core.

Litestream needs the newest file, and those that are not in the bucket yet. Its compaction to level 1, every 30 s, reads
local files where they exist, and else the bucket's. Its retention removes the bucket's file, whether or not a local
one is left. So a local file may go when it is in the bucket and old enough for that compaction to have read it. Where
callers wait for a hundred syncs a second, all but the newest files go at once: the compaction reads those from the
bucket, for a twelfth of the price of their PUTs, and each sync is faster.
"""

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from infra.litestream import local_state

_FILE = re.compile(r"[0-9a-f]{16}-([0-9a-f]{16})\.ltx")
_KEPT_S = 60.0  # twice the pause between two compactions
_KEPT_FILES = 10  # Litestream goes on from the newest one
_RECENT_FILES = 300  # the age counts: ten uploads a second leave as many between two compactions
_MANY_FILES = 400
_BUSY_FILES = 30  # new ones in a second; without callers that wait there are ten
_RECENT_WHILE_BUSY = 20


class FilePace:
    """How fast files come, by a look each second. ``recent`` of them may stay that are younger than a minute."""

    def __init__(self) -> None:
        self.recent = _RECENT_FILES
        self._count: int | None = None
        self._counted_s = 0.0

    def look(self, database: Path, now_s: float) -> bool:
        """Whether files should go now, because each sync is slower for them.

        Args:
            now_s: on any clock; a look may come late.
        """
        count = _count(database)
        if count is None:
            return False
        passed_s = max(1.0, now_s - self._counted_s)
        is_busy = self._count is not None and count - self._count > _BUSY_FILES * passed_s
        self._count, self._counted_s = count, now_s
        self.recent = _RECENT_WHILE_BUSY if is_busy else _RECENT_FILES
        return is_busy or count > _MANY_FILES

    def removed(self, number: int) -> None:
        """So many files are gone since the last look."""
        if self._count is not None:
            self._count -= number


def _count(database: Path) -> int | None:
    """None where the folder can't be listed, or is not there yet."""
    with contextlib.suppress(OSError), os.scandir(local_state.level_0(database)) as entries:
        return sum(1 for _ in entries)
    return None


def remove_sent(
    database: Path, replicated: int, now_s: float, is_current: Callable[[], bool], recent: int = _RECENT_FILES
) -> int:
    """Remove the local files that Litestream needs no more; returns how many.

    What can't be listed or removed stays until the next time; no error of the file system is raised.

    Args:
        replicated: the position in the bucket, as the running Litestream gave it.
        now_s: Unix time.
        is_current: whether that Litestream still runs. It is asked once the folder is open: another Litestream begins
            with a folder of its own, and no file there is touched.
        recent: how many may stay that are younger than a minute.
    """
    removed = 0
    with contextlib.suppress(OSError), _opened(local_state.level_0(database)) as folder:
        for name in sent(folder, replicated, now_s, recent) if is_current() else ():
            with contextlib.suppress(OSError):  # Litestream has just removed it
                os.unlink(name, dir_fd=folder)
                removed += 1
    return removed


def sent(folder: int | Path, replicated: int, now_s: float, recent: int = _RECENT_FILES) -> list[str]:
    """The names of the files of level 0 that Litestream needs no more, the oldest position first.

    Args:
        folder: its path, or the descriptor of the open folder.
        replicated, now_s, recent: as for :func:`remove_sent`.

    Raises:
        OSError: the folder can't be listed.
    """
    with os.scandir(folder) as entries:
        files = sorted(
            (int(named[1], 16), entry.name, entry) for entry in entries if (named := _FILE.fullmatch(entry.name))
        )
    first_recent = len(files) - recent
    return [
        entry.name
        for number, (position, _, entry) in enumerate(files[:-_KEPT_FILES])
        if position <= replicated and (number < first_recent or _written_at_s(entry) <= now_s - _KEPT_S)
    ]


def _written_at_s(file: "os.DirEntry[str]") -> float:
    try:
        return file.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # Litestream has just removed it
        return math.inf


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)
