"""Two weeks of the year: the second goes on from the file of the first."""

from pathlib import Path

import pytest

from tests.simulation.test_simulation import simulate


@pytest.mark.long
@pytest.mark.any_python
def test_two_weeks_keep_every_promise_and_the_second_goes_on_from_the_first(tmp_path: Path) -> None:
    for week in range(2):
        told = simulate("--year", str(tmp_path), "--weeks", "1")
        assert f"week {week}: 0 failures" in told
    assert "2 worlds of 2 seeds" in told
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".db", ".db", ".jsonl", ".txt", ".txt"]
