"""The clock of an emulator, in a file of its state folder that all its processes map into memory.

The rows are of that clock, so it is kept with them: it stands as it was after a restart, and ``data reset`` removes it.
The file has two numbers. The first is the clock's setting, which a reader gets in one read, and so never half of it:

========== ============================================================
0          the machine's clock
2 n        the machine's clock and *n* ms more; *n* may be negative
2 n + 1    it stands still at *n* ms UTC
========== ============================================================

The second is the speed, for people: :mod:`emulator.system.clock_moves` moves a clock that is to be faster.
"""

import errno
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from emulator.base.errors import InvalidInput
from shared.core.time import clock
from shared.core.time.durations import time_span

_BYTES = 16
_NEAR_MS = 1000
_LAST_MS = 253_402_300_799_999  # of the year 9999


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """What an emulator's clock says: *ahead_ms* of the machine's; *speed*: so many times as fast, at most."""

    now_ms: int
    ahead_ms: int
    is_frozen: bool
    speed: int

    @property
    def sentence(self) -> str | None:
        """For people; None: it is the machine's clock."""
        if not self.ahead_ms and not self.is_frozen and self.speed == 1:
            return None
        at = datetime.fromtimestamp(self.now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        how = f" and runs up to {self.speed} times as fast" if self.speed != 1 else ""
        return f"the clock here is not the real one: it {self._pace} {at}, {self._distance}{how}"

    @property
    def _pace(self) -> str:
        return "stands still at" if self.is_frozen else "says"

    @property
    def _distance(self) -> str:
        if abs(self.ahead_ms) < _NEAR_MS:
            return "as the machine's"
        return (
            f"{time_span(round(abs(self.ahead_ms), -3))} {'ahead of' if self.ahead_ms > 0 else 'behind'} the machine's"
        )

    def as_dict(self) -> dict[str, Any]:
        """For ``/_emulator/status`` and ``--json``."""
        return {
            "now": self.now_ms,
            "ahead_ms": self.ahead_ms,
            "frozen": self.is_frozen,
            "speed": self.speed,
            "sentence": self.sentence,
        }


class ClockPage:
    """The file, mapped into this process. The emulator alone writes it, and while none runs, its commands."""

    def __init__(self, path: Path) -> None:
        """Map the file; make it first, with the machine's clock, where it is missing or too short.

        Raises:
            InvalidInput: its numbers are no time.
        """
        try:
            with path.open("a+b") as file:
                if file.seek(0, 2) < _BYTES:
                    file.truncate(_BYTES)
                path.chmod(0o600)
                self._numbers = memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("q")
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            with path.open("rb") as file:  # `emulator status` tells of such a disk
                self._numbers = memoryview(mmap.mmap(file.fileno(), _BYTES, access=mmap.ACCESS_READ)).cast("q")
        if not 0 <= self.now_ms() <= _LAST_MS:
            raise InvalidInput(f"{path} is damaged: delete it while no emulator runs; then the clock is the machine's")

    def follow(self) -> None:
        """From now on this process tells the time by this clock."""
        clock.move(self._moved)

    @property
    def facts(self) -> ClockFacts:
        machine, setting = clock.machine_ms(), self._numbers[0]
        now = self._moved(machine)
        return ClockFacts(now, now - machine, bool(setting & 1), max(1, self._numbers[1]))

    def now_ms(self) -> int:
        return self._moved(clock.machine_ms())

    def set_to(self, at_ms: int) -> None:
        """Let it be *at_ms* now; a clock that stands still stands still there."""
        self._set(at_ms, is_frozen=bool(self._numbers[0] & 1))

    def freeze(self) -> None:
        """Let it stand still where it is."""
        self._numbers[1] = 1
        self._set(self.now_ms(), is_frozen=True)

    def go(self, speed: int = 1) -> None:
        """Let it run on from where it is."""
        if self._numbers[0] & 1:
            self._set(self.now_ms(), is_frozen=False)
        self._numbers[1] = speed

    def go_on(self) -> None:
        """After a start: a clock that was faster has the machine's pace, and one that stood still still does."""
        self._numbers[1] = 1

    def reset(self) -> None:
        """Let it be the machine's clock."""
        self._numbers[1] = 1
        self._numbers[0] = 0

    def _set(self, at_ms: int, *, is_frozen: bool) -> None:
        self._numbers[0] = 2 * at_ms + 1 if is_frozen else 2 * (at_ms - clock.machine_ms())

    def _moved(self, machine_ms: int) -> int:
        setting = self._numbers[0]
        return setting >> 1 if setting & 1 else machine_ms + (setting >> 1)


@contextmanager
def followed(path: Path | None) -> Iterator[ClockPage | None]:
    """Tell the time by the clock in the file meanwhile; where there is no file, by the machine's."""
    page = ClockPage(path) if path is not None and path.exists() else None
    if page is not None:
        page.follow()
    try:
        yield page
    finally:
        clock.move(None)
