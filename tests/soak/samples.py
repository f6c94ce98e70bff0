"""What one emulator uses: memory, descriptors, files. All its processes together."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from emulator.base.state import StateFolder
from emulator.testing import RunningEmulator
from tests.benchmarks.harness.measure import family, shared_mb

MB = 1 << 20
_WORK = 500_000


def pids(emulator: RunningEmulator) -> list[int]:
    """Its processes, from the supervisor down."""
    return family(emulator.process.pid)


def over(processes: list[int], measure: Callable[[int], float]) -> float:
    """The sum over these processes; one that has just ended counts nothing."""
    total = 0.0
    for pid in processes:
        with contextlib.suppress(OSError, StopIteration, IndexError):
            total += measure(pid)
    return total


def memory_mb(emulator: RunningEmulator) -> float:
    """Proportional set size: a page that several share counts once."""
    return over(pids(emulator), shared_mb)


def descriptors(emulator: RunningEmulator) -> float:
    return over(pids(emulator), lambda pid: len(os.listdir(f"/proc/{pid}/fd")))  # noqa: PTH208


def slowdown() -> float:
    """Time on the wall for each of the processor, of some milliseconds of work."""
    wall_s, processor_s = time.perf_counter(), time.thread_time()
    sum(range(_WORK))
    return max(1.0, (time.perf_counter() - wall_s) / max(time.thread_time() - processor_s, 1e-6))


def size_mb(*paths: Path) -> float:
    """Of files, and of folders with all in them."""
    return sum(_bytes(path) for path in paths) / MB


def wal_mb(state: StateFolder) -> float:
    return size_mb(state.database.with_name(f"{state.database.name}-wal"))


def _bytes(path: Path) -> int:
    with contextlib.suppress(OSError):
        if path.is_dir():
            return sum(_bytes(each) for each in path.iterdir())
        return path.stat().st_size
    return 0
