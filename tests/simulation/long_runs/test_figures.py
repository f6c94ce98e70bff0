"""The figures of worlds, kept in files and added up."""

from collections import Counter
from pathlib import Path

from tests.simulation.faults import Fault
from tests.simulation.long_runs import figures
from tests.simulation.outcome import Outcome


def outcome(seed: int, failures: list[str]) -> Outcome:
    faults = [Fault(1.0, "power"), Fault(2.0, "power"), Fault(3.0, "kill", "deliver")]
    counts = Counter({"messages": 1000, "power": 2, "kill": 1})
    return Outcome(seed, faults, "abc", failures, counts=counts, cpu_s=600.4)


def test_files_of_worlds_add_up_and_a_world_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    files = [tmp_path / "new" / "a.jsonl", tmp_path / "b.jsonl"]
    figures.append(files[0], outcome(7, []))
    figures.append(files[0], outcome(8, []))
    figures.append(files[1], outcome(8, []))
    figures.append(files[1], outcome(9, ["lost: 'a'", "lost: 'b'"]))
    told = figures.summed(files).splitlines()
    assert told[0].startswith("3 worlds of 3 seeds, at the commits ")
    assert told[0].endswith("; 1 failed")
    assert told[1:-1] == ["CPU seconds: 1,801", "faults: 9", "    kill: 3", "    power: 6", "messages: 3,000"]
    assert told[-1].startswith("seed 9 at ")
    assert told[-1].endswith(" failed: lost: 'a'")
