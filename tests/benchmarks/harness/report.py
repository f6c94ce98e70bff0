"""The table, as it is printed and as docs/benchmarks.md keeps it."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import apsw

from tests.benchmarks.harness.measure import Line, Scale, percentile

_MAY_FALL_TO = 0.9
_HEAD = "| what | measured | bar | measured / bar | beside it, in the same rounds |\n|---|---|---|---|---|"


def figures(page: str) -> dict[str, float]:
    """The first figure of each line of the tables in *page*."""
    found = re.findall(r"^\| (.+?) \| ([\d,.]*\d)", page, re.MULTILINE)
    return {what: float(figure.replace(",", "")) for what, figure in found}


def compared(line: Line, last: Mapping[str, float]) -> Line:
    """A watched line beside the same line of the last table, which is as good as it was at nine tenths."""
    before = last.get(line.what)
    if line.figure is None or not before:
        return line
    share = before / line.figure if line.is_less_better else line.figure / before
    return replace(line, share=share, is_met=share >= _MAY_FALL_TO)


def row(line: Line) -> str:
    """One line of the table."""
    good, bad = ("holds", "**missed**") if line.figure is None else ("of the last table's", "**fell**")
    verdict = "" if line.is_met is None else good if line.is_met else bad
    share = verdict if line.share is None else f"{line.share:.2f} {verdict}"
    return f"| {line.what} | {line.measured} | {line.bar} | {share} | {line.beside} |"


def section(title: str, lines: Sequence[Line]) -> str:
    """The table of a section, and below it the reason of each missed bar."""
    missed = [
        f"- {line.what}: {line.reason or 'the reason is not known yet'}." for line in lines if line.is_met is False
    ]
    why = "\n\nMissed or fallen, and why:\n\n" + "\n".join(missed) if missed else ""
    return f"## {title}\n\n{_HEAD}\n" + "\n".join(map(row, lines)) + why + "\n"


def head(scale: Scale) -> str:
    """The machine and the method."""
    fsync = fsync_ms(scale.folder)
    return (
        f"# Benchmarks\n\nThe last run of `make bench`, of {version()}: {machine()}, "
        f"fsync {fsync:.2f} ms at the median, load {os.getloadavg()[0]:.1f} when it began.\n\n"
        f"Ratios are medians over {scale.rounds} rounds in which all candidates took turns; (least to most) is the "
        "spread. Machines are noisy, so the ratio is the result and the rate is not.\n"
    )


def version() -> str:
    """The commit that was measured, and whether the tree has changes beyond it."""
    asked = ["git", "describe", "--always", "--dirty=, with changes", "--exclude=*"]
    found = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()
    return f"commit {found}" if found else "a tree without Git"


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
    """Milliseconds until one small write is on this disk."""
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

*raw* is the smallest correct hand-written apsw program on the same file settings (`tests/benchmarks/raw.py`). Its
messages carry a random unique id with its index, because every message promises one. For enqueue, raw is one INSERT
with the values of the same columns, and every ratio is against this. *raw with the event's row* also writes, in the
same transaction, the event that tells listeners; our store leaves that to dispatch. For claim and settle, raw writes
the same rows as ours: for each message the event of its arrival, the answer and its event, and two lines of history;
for the turn two events and the session. Raw has no foreign keys, no checks, no look-ups, and no sessions that exclude
each other.

The peers run at the same `synchronous` and promise less: huey deletes a task when it hands it out; litequeue and
persist-queue have no lease. Their ratio is to raw. For claim and settle they only claim and complete.

TinyAGI could not run here. Its figures come from a like machine (2 cores of an AMD EPYC, ext4) and are constants here.
Its POST commits with NORMAL, ours with FULL.

In a line about processes, the client runs on the same cores. Where a bar asks for slow agents, a turn takes half a
second and not five, so that the run ends in time; the line says so. Agents' programs are small ones of the system, held
in as this machine allows; "the program alone" is its start and end without anything of ours. `claude` is measured where
it is installed (`POSTROOM_TEST_AGENTS` names its folder), beside itself with the same words and no gateway.

In the section on Spark, the history is of finished messages of ten days, each of some 700 bytes with its indexes. JDBC
is sqlite-jdbc in the same Spark session, with BIGINT for every INTEGER (its default is silently wrong) and as many
partitions; `make bench` installs its jar where there is `apt-get`, and `POSTROOM_BENCH_JDBC` names another. DuckDB
and pandas read the same restored file without Spark; pandas scans in pieces, and five million rows not at all.

*Watched* is what lies inside: it has no bar, and stands beside its own figure in the last table. Where more than a
tenth is lost, the line says so, and why.

A view of the operator's page is all that it asks for, one request after the other. On top of the finished rows there is
a bad day (`tests/benchmarks/harness/trouble.py`): 40,000 messages wait, half of them in one conversation, 10,000 are
dead, 10,000 answers wait, and the month has 100,000 turns. The open pages ask as the page's own script does.

Not measured here: the time of `make test` on a fresh clone. Not measured yet: `/metrics` and the simulation.

`make bench` runs everything, in about 50 minutes on a quiet machine with two cores. The first run also makes a
database of ten million finished rows of each kind under `out/`, some 10 GB, and
the histories for Spark, another 10 GB. `python -m tests.benchmarks queue.enqueue
webhook` runs a line or a module and only prints. `--quick` is a short run whose figures prove nothing. `--rows` makes
the grown database smaller. `python -m tests.benchmarks spark --messages 20000000` takes twenty million messages in
place of five for Spark; it needs some 45 GB.
"""
