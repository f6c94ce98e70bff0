"""``python -m tests.simulation``: run worlds, tell their stories, and cut the plan of a world that fails down.

::

    python -m tests.simulation --seed 7 --trace    the world of seed 7, with its story
    python -m tests.simulation --worlds 100        a hundred new worlds
    python -m tests.simulation --hours 8           as many as the hours hold
    python -m tests.simulation --kept              those of ``seeds.txt``, each of which has found a fault
    python -m tests.simulation --worlds 100 --log a.jsonl    a line of figures for each world, added to the file
    python -m tests.simulation --year FOLDER --weeks 10      the next ten weeks of a year; FOLDER has what was before
    python -m tests.simulation --sum a.jsonl b.jsonl         the figures of all worlds in these files
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.simulation.long_runs import figures, year
from tests.simulation.long_runs.week import WEEKS
from tests.simulation.outcome import Outcome
from tests.simulation.running import run
from tests.simulation.shrinking import shrunk

KEPT = Path(__file__).with_name("seeds.txt")


def kept() -> list[int]:
    """The seeds that have found a fault; each line of the list has one, and what it found."""
    return [int(line.split()[0]) for line in KEPT.read_text().splitlines() if line[:1].isdecimal()]


def _seeds(given: argparse.Namespace) -> Iterator[int]:
    if given.seed is not None:
        yield given.seed
        return
    if given.kept:
        yield from kept()
        return
    until_s = time.monotonic() + given.hours * 3600
    number = 0
    while number < given.worlds or time.monotonic() < until_s:
        number += 1
        yield random.SystemRandom().randrange(10**9) if given.start is None else given.start + number - 1


def _tell(outcome: Outcome, *, trace: bool) -> None:
    if trace:
        print("\n".join(outcome.story))
    print(f"seed {outcome.seed}: hash {outcome.hash or '-'}, {len(outcome.faults)} faults, ", end="")
    print(f"{len(outcome.failures)} failures" if outcome.failures else "every promise held")
    for failure in outcome.failures[:200]:
        print(f"    {failure}")


def main() -> int:
    """The number of worlds that failed, at most 100."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="of one world, which is the same each time")
    parser.add_argument("--trace", action="store_true", help="tell the whole story")
    parser.add_argument("--worlds", type=int, default=1, help="how many")
    parser.add_argument("--start", type=int, help="the first seed; the others follow it; without it, new ones")
    parser.add_argument("--hours", type=float, default=0.0, help="of real time")
    parser.add_argument("--kept", action="store_true", help="the seeds that have found a fault")
    parser.add_argument("--whole", action="store_true", help="do not cut the plan of a failing world down")
    parser.add_argument("--log", type=Path, help="the file that gets a line of figures for each world")
    parser.add_argument("--year", type=Path, help="the folder of a year of which some weeks are to run")
    parser.add_argument("--weeks", type=int, default=WEEKS, help="how many of them")
    parser.add_argument("--sum", type=Path, nargs="+", help="run nothing: add up the figures in these files")
    given = parser.parse_args()
    if given.sum:
        print(figures.summed(given.sum))
        return 0
    if given.year is not None:
        return min(year.go_on(given.year, weeks=given.weeks), 100)
    began_s, totals, failed = time.monotonic(), Counter[str](), 0
    for seed in _seeds(given):
        outcome = run(seed)
        totals += outcome.counts + Counter(worlds=1)
        if given.log is not None:
            figures.append(given.log, outcome)
        if outcome.failures or given.seed is not None or given.trace:
            _tell(outcome, trace=given.trace)
        if outcome.failures:
            failed += 1
            if not given.whole:
                _tell_fewest(outcome)
        sys.stdout.flush()
    print(f"{failed} of {totals['worlds']} worlds failed, in {time.monotonic() - began_s:.0f} s of real time")
    print("  ".join(f"{name}: {count:,}" for name, count in sorted(totals.items())))
    return min(failed, 100)


def _tell_fewest(outcome: Outcome) -> None:
    fewest = shrunk(outcome, lambda faults: run(outcome.seed, faults))
    print(f"  {len(fewest.faults)} faults suffice:")
    for fault in fewest.faults:
        print(f"    {fault}")
    for failure in fewest.failures[:5]:
        print(f"    so: {failure}")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a world
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])  # noqa: S606
    sys.exit(main())
