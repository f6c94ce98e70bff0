"""Where the seconds of a job went: the start of Python, Java and the session, the restore, and its queries."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_parts: dict[str, float] = {}
_jobs: list[float] = []  # when each job of this process began


@contextmanager
def counted(part: str) -> Iterator[None]:
    """Count the seconds of the block as *part* of the job; blocks inside it count as theirs."""
    start, inside = time.monotonic(), sum(_parts.values())
    try:
        yield
    finally:
        took = time.monotonic() - start - (sum(_parts.values()) - inside)
        _parts[part] = _parts.get(part, 0.0) + took


@contextmanager
def counted_job() -> Iterator[dict[str, float]]:
    """Count a whole job. At its end the yielded dict has the seconds of each part, ``query`` for what no part counted,
    and ``total``; ``python`` is the time from the start of the process, in the first job of a process.
    """
    _parts.clear()
    spent: dict[str, float] = {}
    python = 0.0 if _jobs else _age_s()
    start = time.monotonic()
    _jobs.append(start)
    try:
        yield spent
    finally:
        query = time.monotonic() - start - sum(_parts.values())
        spent |= {"python": python} if python else {}
        spent |= {**_parts, "query": query}
        spent["total"] = sum(spent.values())


def as_fields(spent: dict[str, float]) -> str:
    """``python_s=0.9 java_s=2.1 ...``."""
    return " ".join(f"{part}_s={seconds:.1f}" for part, seconds in spent.items())


def _age_s() -> float:
    """Seconds since this process began; 0 where the system does not tell."""
    try:
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return 0.0
