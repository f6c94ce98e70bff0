"""The disk under SQLite: an apsw VFS that is slow, fails, fills up, lets a process die inside a write, and loses power.

A file holds what a process would read. Beside it, the disk remembers what no sync has made last. A cut of the power
keeps of that what the seed chooses, torn at sectors of 512 bytes. A dead process changes nothing any more.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from tests.simulation.machine.loop import LANE, Lane, SimulatedLoop

_SECTOR = 512
_NAME = "simulated"


@dataclass(slots=True)
class _Unsynced:
    """What a file was at its last sync, and the writes since then."""

    size: int
    before: list[tuple[int, bytes]] = field(default_factory=list)  # what each write replaced, in order
    writes: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class Counts:
    """What the disk did to the processes."""

    writes: int = 0
    syncs: int = 0
    failed: int = 0
    full: int = 0
    deaths: int = 0
    lost: int = 0
    torn: int = 0


class Disk:
    """One disk, for all processes.

    Attributes:
        fails: how many of a hundred writes and syncs fail at the moment.
        is_full: no file may grow.
        slow_s: how long a sync takes, at most.
        dies_in: the process that dies in its next write or sync but so many.
    """

    def __init__(self, loop: SimulatedLoop, dice: random.Random) -> None:
        self.loop = loop
        self.dice = dice
        self.counts = Counts()
        self.fails = 0.0
        self.is_full = False
        self.slow_s = 0.0
        self.dies_in: dict[Lane, int] = {}
        self._is_burying = False
        self._unsynced: dict[str, _Unsynced] = {}
        self._connections: dict[Lane, list[apsw.Connection]] = {}
        self._vfs = _Vfs(self)
        apsw.connection_hooks.append(self._note_connection)

    def _note_connection(self, conn: apsw.Connection) -> None:
        self._connections.setdefault(LANE.get(self.loop.outside), []).append(conn)

    def bury(self, lane: Lane) -> None:
        """Its process is dead: its locks are free, and nothing more of it reaches a file."""
        self.dies_in.pop(lane, None)
        with self._refusing():
            for conn in self._connections.pop(lane, []):
                with suppress(apsw.Error):  # of a dead process, SQLite's last words reach nothing
                    conn.close(True)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        self._is_burying = True
        try:
            yield
        finally:
            self._is_burying = False

    def cut_power(self) -> None:
        """All processes are dead. Of what was not synced, chance keeps a part."""
        for name, unsynced in self._unsynced.items():
            path = Path(name)
            if not path.exists():
                continue
            with path.open("r+b") as file:
                for at, replaced in reversed(unsynced.before):
                    file.seek(at)
                    file.write(replaced)
                file.truncate(unsynced.size)
                for at, data in unsynced.writes:
                    for start, piece in self._kept(data):
                        file.seek(at + start)
                        file.write(piece)
        self._unsynced.clear()

    def _kept(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        chance = self.dice.random()
        if chance < 0.45:
            yield 0, data
        elif chance < 0.9:
            self.counts.lost += 1
        else:
            self.counts.torn += 1
            for start in range(0, len(data), _SECTOR):
                if self.dice.random() < 0.5:
                    yield start, data[start : start + _SECTOR]

    def forget(self) -> None:
        """The files are gone."""
        self._unsynced.clear()

    # What files call.

    def before(self, what: str) -> None:
        """Raises if the write or sync does not happen."""
        lane = LANE.get(self.loop.outside)
        if self._is_burying or lane.is_dead:
            raise apsw.IOError("the process is dead")
        if lane is self.loop.outside:
            return
        left = self.dies_in.get(lane)
        if left is not None:
            self.dies_in[lane] = left - 1
            if left <= 0:
                del self.dies_in[lane]
                self.counts.deaths += 1
                self.loop.kill(lane)
                raise apsw.IOError("the process dies here")
        if self.fails and self.dice.random() * 100 < self.fails:
            self.counts.failed += 1
            raise apsw.IOError(f"the disk fails in a {what}")

    def note_write(self, name: str, size: int, at: int, before: bytes, data: bytes) -> None:
        self.counts.writes += 1
        if self.is_full and at + len(data) > size and LANE.get(self.loop.outside) is not self.loop.outside:
            self.counts.full += 1
            raise apsw.FullError("the disk is full")
        unsynced = self._unsynced.setdefault(name, _Unsynced(size))
        unsynced.before.append((at, before))
        unsynced.writes.append((at, data))

    def note_truncate(self, name: str, size: int, old: int, tail: Callable[[], bytes]) -> None:
        if size < old:
            unsynced = self._unsynced.setdefault(name, _Unsynced(old))
            unsynced.before.append((size, tail()))

    def note_sync(self, name: str) -> None:
        self.counts.syncs += 1
        self._unsynced.pop(name, None)
        if self.slow_s:
            self.loop.charge += self.dice.uniform(0, self.slow_s)


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        super().__init__(_NAME, "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> "_File":
        return _File(self.disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.disk.before("delete")
        super().xDelete(filename, syncdir)

    def xRandomness(self, numbytes: int) -> bytes:
        return self.disk.dice.randbytes(numbytes)

    def xSleep(self, microseconds: int) -> int:
        self.disk.loop.charge += microseconds / 1e6
        return microseconds


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("unix", name, flags)

    def xLock(self, level: int) -> None:
        """A file that is open to read only gets no lock to write, which SQLite asks for when it closes the last one.

        SQLite takes that as it is; apsw would raise it.
        """
        try:
            super().xLock(level)
        except apsw.IOError:
            raise apsw.BusyError from None

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.before("write")
        size = super().xFileSize()
        there = max(0, min(len(data), size - offset))
        before = super().xRead(there, offset) if there else b""
        self._disk.note_write(self._name, size, offset, before, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.before("truncation")
        size = super().xFileSize()
        self._disk.note_truncate(self._name, newsize, size, lambda: super(_File, self).xRead(size - newsize, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._disk.before("sync")
        self._disk.note_sync(self._name)
