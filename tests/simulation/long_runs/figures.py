"""The figures of many worlds: a file has a line of JSON for each world, and such files can be added up."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.simulation.outcome import Outcome

_MOST_FAILURES = 20  # of one world, in its line


def append(file: Path, outcome: Outcome) -> None:
    """Add the line of a world."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(line_of(outcome)) + "\n")


def line_of(outcome: Outcome) -> dict[str, Any]:
    """What is kept of a world: its seed and the commit repeat it."""
    kinds = Counter(fault.kind for fault in outcome.faults)
    return {
        "seed": outcome.seed,
        "commit": _commit(),
        "hash": outcome.hash,
        "cpuSeconds": round(outcome.cpu_s, 2),
        "faults": dict(sorted(kinds.items())),
        "counts": {name: count for name, count in sorted(outcome.counts.items()) if name not in kinds},
        "failures": outcome.failures[:_MOST_FAILURES],
    }


def summed(files: Iterable[Path]) -> str:
    """The figures of all worlds in *files* as text. A world that is there twice counts once."""
    worlds = {
        (each["commit"], each["seed"]): each
        for file in files
        for each in map(json.loads, file.read_text().splitlines())
    }
    faults, counts = Counter[str](), Counter[str]()
    for each in worlds.values():
        faults.update(each["faults"])
        counts.update(each["counts"])
    failed = {key: each["failures"] for key, each in worlds.items() if each["failures"]}
    return "\n".join([
        f"{len(worlds):,} worlds of {len({seed for _, seed in worlds}):,} seeds, at the commits"
        f" {', '.join(sorted({commit for commit, _ in worlds})) or '-'}; {len(failed):,} failed",
        f"CPU seconds: {sum(each['cpuSeconds'] for each in worlds.values()):,.0f}",
        f"faults: {faults.total():,}",
        *(f"    {name}: {count:,}" for name, count in sorted(faults.items())),
        *(f"{name}: {count:,}" for name, count in sorted(counts.items())),
        *(f"seed {seed} at {commit} failed: {failures[0]}" for (commit, seed), failures in sorted(failed.items())),
    ])  # fmt: skip


@cache
def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "no commit"
