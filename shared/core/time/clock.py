"""The one place that reads the clocks and waits by them; every other function takes ``now_ms`` as a parameter.

An emulator can move the clock of its processes (``emulator/base/clock_page.py``). Nothing else calls :func:`move`, and
nothing of the product calls :func:`run_on`: a deployment has no setting, file or request that does.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Clocks(Protocol):
    """Where the instants come from: the clock of the wall, which somebody sets, and one that nobody sets."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""

    def monotonic_s(self) -> float:
        """Seconds since some instant; nobody sets it."""

    def pause(self, seconds: float) -> None:
        """Keep the calling thread waiting for so long."""


class MachineClocks:
    """This machine's clocks: the one that is set, and the one that nobody sets."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


_clock: Clocks = MachineClocks()
_moved: Callable[[int], int] | None = None


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC: the instant of every row."""
    now = _clock.wall_ms()
    return now if _moved is None else _moved(now)


def machine_ms() -> int:
    """The same by this machine's clock, which also tells the times of files and of what lies in a bucket."""
    return _clock.wall_ms()


def of_machine(at_ms: int) -> int:
    """An instant of the machine's clock on the clock of the rows: it is as long ago there as here."""
    return at_ms if _moved is None else at_ms + now_ms() - machine_ms()


def monotonic_s() -> float:
    """Seconds since some instant, to measure how long something takes: nobody sets this clock."""
    return _clock.monotonic_s()


def pause(seconds: float) -> None:
    """Keep this thread waiting for so long."""
    _clock.pause(seconds)


def move(moved: Callable[[int], int] | None) -> None:
    """From now on :func:`now_ms` is *moved* of the machine's clock; None: the machine's clock itself."""
    global _moved
    _moved = moved


def run_on(clock: Clocks) -> None:
    """Read all instants from *clock* from now on."""
    global _clock
    _clock = clock
