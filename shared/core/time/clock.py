"""The only place that reads clocks and sleeps; every other function takes ``now_ms`` as a parameter.

An emulator can move the clock of its processes (``emulator/base/clock_page.py``). Nothing else calls :func:`move`, and
the product never calls :func:`run_on`: no setting, file or request does.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Clocks(Protocol):
    """A source of instants: a wall clock, which can be set, and a monotonic clock."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""

    def monotonic_s(self) -> float:
        """Seconds since some instant; it can't be set."""

    def pause(self, seconds: float) -> None:
        """Sleep in the calling thread."""


class MachineClocks:
    """The wall clock and the monotonic clock of this machine."""

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
    """The same by the machine's own clock, which the times of files and of objects in a bucket follow."""
    return _clock.wall_ms()


def of_machine(at_ms: int) -> int:
    """Convert an instant of the machine's clock to the clock of the rows: it is equally long ago."""
    return at_ms if _moved is None else at_ms + now_ms() - machine_ms()


def monotonic_s() -> float:
    """Seconds since some instant, to measure durations: this clock can't be set."""
    return _clock.monotonic_s()


def pause(seconds: float) -> None:
    """Sleep in this thread."""
    _clock.pause(seconds)


def move(moved: Callable[[int], int] | None) -> None:
    """From now on :func:`now_ms` is *moved* of the machine's clock; None: the machine's clock itself."""
    global _moved
    _moved = moved


def run_on(clock: Clocks) -> None:
    """Read all instants from *clock* from now on."""
    global _clock
    _clock = clock
