"""Cuts the plan of a world that fails down to the fewest faults with which it still fails."""

from collections.abc import Callable, Sequence

from tests.simulation.faults import Fault
from tests.simulation.outcome import Outcome

MOST_RUNS = 60


def shrunk(outcome: Outcome, run: Callable[[Sequence[Fault]], Outcome], *, most_runs: int = MOST_RUNS) -> Outcome:
    """The outcome with the fewest faults that was found: first halves are left out, then ever smaller parts."""
    best, size, runs = outcome, max(1, len(outcome.faults) // 2), 0
    while runs < most_runs and best.faults:
        for start in range(0, len(best.faults), size):
            runs += 1
            tried = run([*best.faults[:start], *best.faults[start + size :]])
            if tried.failures:
                best = tried
                break
            if runs >= most_runs:
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
        size = min(size, max(1, len(best.faults)))
    return best
