"""``python -m tests.simulation.mutants``: hunt all deliberate faults, or those of these names.

::

    python -m tests.simulation.mutants                       all
    python -m tests.simulation.mutants records-no-doubt      one
    python -m tests.simulation.mutants --table               the table in docs/simulation.md
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.simulation.mutants.hunting import LIMIT_S, WORLDS, Found, hunt, live_here
from tests.simulation.mutants.listed import MUTANTS, table
from tests.simulation.mutants.mutant import Mutant


def _chosen(names: Sequence[str]) -> list[Mutant]:
    known = {mutant.name: mutant for mutant in MUTANTS}
    return [known[name] for name in names] if names else list(MUTANTS)


def main() -> int:
    """The number of mutants that nothing finds, or of which nobody knows."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help="of mutants; without one: all")
    parser.add_argument("--worlds", type=int, default=WORLDS, help="how many each may live through")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of real time for each")
    parser.add_argument("--at-once", type=int, default=1, help="how many hunts run beside each other")
    parser.add_argument("--table", action="store_true", help="print the table for docs/simulation.md")
    parser.add_argument("--in-this-copy", type=int, nargs="+", metavar="SEED", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_this_copy:
        return live_here(given.in_this_copy)
    if given.table:
        print(table(), end="")
        return 0

    def one(mutant: Mutant) -> Found:
        began_s = time.monotonic()
        found = hunt(mutant, worlds=given.worlds, limit_s=given.limit)
        print(f"{mutant.name:34} {time.monotonic() - began_s:4.0f} s  {str(found)[:200]}", flush=True)
        return found

    chosen = _chosen(given.names)
    with ThreadPoolExecutor(given.at_once) as hunters:
        ends = dict(zip(chosen, hunters.map(one, chosen), strict=True))
    for end, words in (("survives", "survive"), ("too slow", "need more time"), ("broken", "could not be hunted")):
        names = [mutant.name for mutant, found in ends.items() if found.end == end]
        print(f"{len(names)} {words}" + (f": {', '.join(names)}" if names else ""))
    return sum(found.end != "found" for found in ends.values())


if __name__ == "__main__":
    sys.exit(main())
