"""Slices that take turns: every candidate meets the same noise, so the ratios inside a round count."""

import contextlib
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Scale:
    """How long and how large: the whole benchmark, or a quick run.

    *folder*: on a real disk, emptied at the end. *cache*: keeps the grown database from one run to the next.
    *messages*: of the large history for Spark, in place of five million.
    """

    folder: Path
    cache: Path
    rounds: int
    slice_s: float
    load_s: float
    soak_s: float
    rows: int
    is_quick: bool
    messages: int | None = None

    def large_history(self) -> int:
        """How many messages the large history for Spark has."""
        return self.messages or self.few(5_000_000, 50_000)

    def few(self, whole: int, quick: int) -> int:
        """*whole*, or *quick* in a quick run."""
        return quick if self.is_quick else whole

    def place(self, name: str) -> Path:
        """A new folder of this name."""
        path = self.folder / name
        path.mkdir(parents=True)
        return path


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the least and the most over the rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])

    def __format__(self, spec: str) -> str:
        return f"{self.median:{spec}} ({self.least:{spec}} to {self.most:{spec}})"


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table. *share* is measured / bar; *reason* is shown where the bar is missed.

    A line that is watched has no bar, but a *figure* that is compared with that of the last table.
    """

    what: str
    measured: str
    bar: str = ""
    share: float | None = None
    is_met: bool | None = None
    beside: str = ""
    reason: str = ""
    figure: float | None = None
    is_less_better: bool = False


def at_least(what: str, value: Spread, bar: float, *, beside: str = "", reason: str = "", spec: str = ".2f") -> Line:
    """A line whose median must reach *bar*."""
    share = value.median / bar
    return Line(what, f"{value:{spec}}", f"≥ {bar:,g}", share, share >= 1, beside, reason)


def at_most(what: str, value: Spread, bar: float, unit: str, *, beside: str = "", reason: str = "") -> Line:
    """A line whose median must not exceed *bar*."""
    share = value.median / bar
    spec = ",.0f" if bar >= 100 else ".1f" if bar >= 10 else ".2f" if bar >= 0.1 else ".3f"
    return Line(what, f"{value:{spec}} {unit}".strip(), f"≤ {bar:,g} {unit}".strip(), share, share <= 1, beside, reason)


def watched(
    what: str, value: Spread, unit: str = "", *, is_less_better: bool = False, beside: str = "", reason: str = ""
) -> Line:
    """A line without a bar, of what lies inside: it may fall by a tenth from one table to the next, with a reason."""
    spec = ".1f" if value.median >= 5 else ".3f" if value.median < 0.1 else ".2f"
    measured = f"{value:{spec}} {unit}".strip()
    return Line(what, measured, "watched", None, None, beside, reason, value.median, is_less_better)


def must_be(what: str, measured: str, *, is_met: bool, bar: str, beside: str = "", reason: str = "") -> Line:
    """A line that holds or doesn't, such as "nothing lost"."""
    return Line(what, measured, bar, None, is_met, beside, reason)


Slice = Callable[[], float]


def interleave(candidates: Mapping[str, Slice], rounds: int) -> dict[str, list[float]]:
    """The figure of each candidate in each round; every other round runs in the opposite order."""
    seen: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    for _ in range(rounds):
        for name in order:
            seen[name].append(candidates[name]())
        order.reverse()
    return seen


def ratios(values: Sequence[float], reference: Sequence[float]) -> Spread:
    """The ratio inside each round."""
    return Spread.of(value / base for value, base in zip(values, reference, strict=True))


def rate(step: Callable[[], int], slice_s: float, prepare: Callable[[], object] | None = None) -> Slice:
    """A slice in operations a second: *step* does some and returns how many. *prepare* runs before each, untimed."""

    def measure() -> float:
        done, spent = 0, 0.0
        gc.collect()
        while spent < slice_s:
            if prepare is not None:
                prepare()
            start = time.perf_counter()
            done += step()
            spent += time.perf_counter() - start
        return done / spent

    return measure


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which *share* of *values* lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ms(seconds: float) -> str:
    """Milliseconds for people."""
    return f"{seconds * 1000:,.2f} ms" if seconds < 0.01 else f"{seconds * 1000:,.0f} ms"


def cpu_s(pid: int) -> float:
    """The processor time of a process: its threads to the nanosecond, its ended children to the tick."""
    threads = (Path(f"/proc/{pid}/task/{each}/schedstat") for each in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    own = sum(int(path.read_text().split()[0]) for path in threads) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, field: str = "VmRSS") -> float:
    """``VmRSS`` is resident now, ``VmHWM`` is the most so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(field)


def family(pid: int) -> list[int]:
    """The process and all its descendants, zombies too."""
    found = [pid]
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
            found += [each for child in children for each in family(int(child))]
    return found


def shared_mb(pid: int) -> float:
    """Its proportional set size: a page that it shares counts in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
