"""The table: what is printed, and what docs/benchmarks.md keeps."""

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import apsw

from tests.benchmarks.measure import Line, Scale, percentile

_HEAD = "| what | measured | bar | measured / bar | beside it, in the same rounds |\n|---|---|---|---|---|"


def row(line: Line) -> str:
    """One line of the table."""
    verdict = "" if line.is_met is None else "holds" if line.is_met else "**missed**"
    share = verdict if line.share is None else f"{line.share:.2f} {verdict}"
    return f"| {line.what} | {line.measured} | {line.bar} | {share} | {line.beside} |"


def section(title: str, lines: Sequence[Line]) -> str:
    """The section's table, and under it why a bar was missed."""
    missed = [f"- {line.what}: {line.reason or 'why is not known yet'}." for line in lines if line.is_met is False]
    why = "\n\nMissed, and why:\n\n" + "\n".join(missed) if missed else ""
    return f"## {title}\n\n{_HEAD}\n" + "\n".join(map(row, lines)) + why + "\n"


def head(scale: Scale) -> str:
    """What was measured where."""
    fsync = fsync_ms(scale.folder)
    return (
        f"# Benchmarks\n\nThe last run of `make bench`: {machine()}, fsync {fsync:.2f} ms at the median, "
        f"load {os.getloadavg()[0]:.1f} when it began.\n\n"
        f"Ratios are medians over {scale.rounds} rounds in which all candidates took turns; (least to most) is the "
        "spread. Machines are noisy: the ratio is the result, the rate is not.\n"
    )


def machine() -> str:
    """Cores, processor, system, versions."""
    cpuinfo = Path("/proc/cpuinfo")
    found = [
        line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
    ]
    return (
        f"{os.cpu_count()} cores ({found[0] if found else platform.machine()}), Linux {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    )


def fsync_ms(folder: Path) -> float:
    """What one small write costs until it is on this disk."""
    path = folder / "fsync"
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(100):
            start = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    path.unlink()
    return percentile(times, 0.5)


NOTES = """
## How to read this

*raw* is the smallest correct hand-written apsw program on the same file settings (`tests/benchmarks/raw.py`). For
enqueue it is one INSERT with the same columns' values into a table with one partial index, and this is what every ratio
is against; *raw with the event's row* also writes, in the same transaction, the row that tells listeners, which our
store leaves to dispatch. For claim and settle raw writes the same rows as ours: for each message the events of its
arrival and of its answer, the answer and two lines of history; for the turn its two events and the session. It keeps no
unique ids, no foreign keys, no checks, no sessions that exclude each other and no look-ups.

The peers run at the same `synchronous` and promise less: huey deletes a task when it hands it out, litequeue and
persist-queue have no lease. Their column is put against raw's, for claim and completion alone.

TinyAGI could not be run here. Its figures were measured on a like machine (2 cores of an AMD EPYC, ext4), and stand
here as constants. Its POST commits with NORMAL, ours with FULL.

A line that speaks of processes has its client on the same cores. Where an agent has to be slow, it is slow for half a
second a turn and not for five, so that the run ends in time; the line says so. The WAL is watched for five minutes.

`make bench` runs everything, in about 20 minutes on a quiet machine with two cores; the first run also makes a database
of ten million finished rows of each kind under `out/`, some 10 GB. `python -m tests.benchmarks queue.enqueue webhook`
runs a line or a module, and only prints; `--quick` is a short look whose figures prove nothing; `--rows` makes the
grown database smaller.
"""
