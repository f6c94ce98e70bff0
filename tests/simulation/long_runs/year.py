"""The virtual year of a small postroom, in pieces: a folder has the file of each week and a line of its figures."""

import json
import sys
from functools import partial
from pathlib import Path

from tests.simulation.long_runs import figures
from tests.simulation.long_runs.week import WEEKS, Week, file_of
from tests.simulation.running import run

SEED = 20_270_115
LIMIT_S = 3600.0  # of real time, for a week


def go_on(home: Path, *, weeks: int) -> int:
    """Run the next weeks of the year in *home*, and print the figures of all so far; how many of them failed."""
    home.mkdir(parents=True, exist_ok=True)
    log = home / "weeks.jsonl"
    done = len(log.read_text().splitlines()) if log.exists() else 0
    for number in range(done, min(done + weeks, WEEKS)):
        outcome = run(SEED + number, make=partial(Week, number, home.absolute()), limit_s=LIMIT_S)
        figures.append(log, outcome)
        (home / f"week-{number:02}.txt").write_text("\n".join([*outcome.story, *outcome.failures]))
        print(f"week {number}: {len(outcome.failures)} failures, {outcome.cpu_s:.0f} s of CPU, ", end="")
        print(f"{outcome.counts['messages']} messages, {len(outcome.faults)} faults, ", end="")
        kept = file_of(home, number)
        print(f"{kept.stat().st_size >> 10} KiB" if kept.exists() else "no file")
        for failure in outcome.failures[:20]:
            print(f"    {failure}")
        sys.stdout.flush()
        if not kept.exists():
            break  # it did not come to its end
    print(figures.summed([log]))
    return sum(bool(json.loads(line)["failures"]) for line in log.read_text().splitlines())
