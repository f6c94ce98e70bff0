"""The simulator itself: a seed is one world, and a plan is cut down to what matters."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.simulation.faults import Fault
from tests.simulation.outcome import Outcome
from tests.simulation.shrinking import shrunk

ROOT = Path(__file__).parents[2]
LIMIT_S = 300


def simulate(*words: str, limit_s: float = LIMIT_S) -> str:
    """What a run says; fails with it unless every promise held."""
    argv = [sys.executable, "-m", "tests.simulation", *words]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=limit_s)
    assert ran.returncode == 0, f"{' '.join(argv[1:])}\n{ran.stdout[-8000:]}{ran.stderr[-4000:]}"
    return ran.stdout


@pytest.mark.any_python
def test_a_seed_is_one_world():
    """Its story, rows and callbacks are the same in another Python: only the real time differs."""
    first, second = (simulate("--seed", "3", "--trace").rpartition("worlds failed")[0] for _ in range(2))
    assert first == second
    assert "*** the power is cut" in first
    assert "every promise held" in first


def fault(number: int) -> Fault:
    return Fault(float(number), "power")


def test_a_plan_is_cut_down_to_the_faults_that_are_needed():
    runs = []

    def run(faults: Sequence[Fault]) -> Outcome:
        runs.append(len(faults))
        fails = {3.0, 11.0} <= {each.at_s for each in faults}
        return Outcome(1, list(faults), failures=["lost"] if fails else [])

    whole = Outcome(1, [fault(number) for number in range(16)], failures=["lost"])
    assert [each.at_s for each in shrunk(whole, run).faults] == [3.0, 11.0]
    assert len(runs) < 40


def test_a_world_that_fails_without_a_fault_needs_none():
    whole = Outcome(1, [fault(1), fault(2)], failures=["lost"])
    assert shrunk(whole, lambda faults: Outcome(1, list(faults), failures=["lost"])).faults == []


def test_cutting_down_ends_after_so_many_runs():
    runs = []

    def run(faults: Sequence[Fault]) -> Outcome:
        runs.append(faults)
        return Outcome(1, list(faults))

    shrunk(Outcome(1, [fault(number) for number in range(200)], failures=["lost"]), run, most_runs=7)
    assert len(runs) == 7
