"""``python -m tests.soak --hours 24 --minutes 25``: prints the hours and what is flat, and writes a JSON and a graph.

Ends with 1 if a figure grows by the rule of :mod:`tests.soak.trend`, or a message has no answer.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from emulator.base.version import versions
from emulator.proving.receipt import machine
from tests.soak import graph
from tests.soak.day import FIGURES, Soak, running, seconds_of_an_hour


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--hours", type=int, default=24, help="virtual hours")
    parser.add_argument("--minutes", type=float, default=25.0, help="real minutes for all of them, about")
    parser.add_argument("--rate", type=float, default=6.0, help="steps of people a second, while they write")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/soak"), help="the folder of the result")
    options = parser.parse_args()
    begun, load = time.monotonic(), machine(0.0)["loadAfter"]
    folder = Path(tempfile.mkdtemp(prefix="postroom-soak-"))
    try:
        with running(folder) as emulator:
            each_s = seconds_of_an_hour(options.minutes, options.hours)
            soak = Soak(emulator, options.seed, each_s, options.rate)
            soak.run(options.hours, lambda line: print(line, flush=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts = facts_of(soak, time.monotonic() - begun, load)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "soak.json").write_text(json.dumps(facts, indent=1) + "\n")
    picture = graph.draw(soak.series(), FIGURES, soak.trends(), soak.skip)
    (options.out / "soak.svg").write_text(picture)
    print(table(facts))
    print("\n".join(soak.problems))
    return 1 if facts["grows"] or soak.problems else 0


def facts_of(soak: Soak, seconds: float, load: float) -> dict[str, Any]:
    """The result for programs."""
    trends = soak.trends()
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": machine(load),
        "versions": versions(),
        "seconds": round(seconds),
        "hours": soak.hours,
        "skip": soak.skip,
        "did": dict(soak.traffic.did),
        "said": soak.said,
        "lost": soak.lost,
        "grows": [figure.key for figure in FIGURES if figure.is_judged and not trends[figure.key].is_flat],
        "trends": {
            key: {"first": one.first, "last": one.last, "median": one.median, "rise": one.rise, "allowed": one.allowed}
            for key, one in trends.items()
        },
    }


def table(facts: dict[str, Any]) -> str:
    """The figures as a table of Markdown."""
    head = f"| figure | hour {facts['skip'] + 1} | last hour | rise | allowed | |\n|---|---|---|---|---|---|\n"
    rows = []
    for figure in FIGURES:
        one = facts["trends"][figure.key]
        verdict = "shown only" if not figure.is_judged else "**grows**" if figure.key in facts["grows"] else "flat"
        cells = [f"{one[name]:,.1f} {figure.unit}".strip() for name in ("first", "last", "rise", "allowed")]
        rows.append(f"| {' | '.join([figure.title, *cells, verdict])} |")
    return head + "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
