from datetime import datetime

import pytest

from spark_jobs.mart.places import present
from tests.spark_jobs.mart.test_publish import DAY_MS, NOON, event, mart, rows_of, run

__all__ = ["mart", "run"]
FAR_AHEAD = 32_000_000_000_000  # 2984


def use(primary, turn, at):
    primary.execute(
        "INSERT INTO usage (turn, agent, session, model, paid_by, requests, input, output, cache_read, cache_write,"
        " cost, created_at, updated_at) VALUES (?, 'a', 's', 'm', 'key', 1, 0, 0, 0, 0, 1, ?, ?)",
        [(turn, NOON, at)],
    )


def instant_ms(place):
    return int(datetime.fromisoformat(present(place)[0].timestamp).timestamp() * 1000)


def costs(place):
    return [row["cost"] for row in rows_of(place, "usage")]


def test_a_clock_that_ran_ahead_hides_no_later_cost(primary, run, mart):
    use(primary, "ahead", FAR_AHEAD)
    use(primary, "t", NOON)
    assert run(mart) == 0
    primary.execute(f"UPDATE usage SET cost = 99, updated_at = {instant_ms(mart) + 1} WHERE turn = 't'")
    assert run(mart) == 0
    assert costs(mart) == [1, 99]
    assert present(mart)[0].read_at_ms <= instant_ms(mart)


def test_a_mart_that_an_earlier_release_let_run_ahead_goes_on(primary, run, mart, tmp_path):
    use(primary, "t", NOON)
    assert run(mart) == 0
    path = tmp_path / "mart" / "current" / "manifest.json"
    path.write_text(path.read_text().replace(f'"read_at_ms": {NOON}', f'"read_at_ms": {FAR_AHEAD}'))
    assert present(mart)[0].read_at_ms == FAR_AHEAD
    primary.execute(f"UPDATE usage SET cost = 99, updated_at = {instant_ms(mart) + 1}")
    assert run(mart) == 0
    assert costs(mart) == [99]


@pytest.mark.parametrize("days", [0, 1])
def test_rows_that_came_and_went_between_two_runs_are_a_hole(primary, run, mart, capsys, days):
    primary.receive(2)
    event(primary, "message_received", NOON)
    assert run(mart) == 0
    assert "hole" not in capsys.readouterr().out
    assert not any(table.holes for table in present(mart)[0].tables.values())
    primary.receive(5, at=NOON + days * DAY_MS)
    primary.execute("DELETE FROM messages WHERE id BETWEEN 3 AND 6")
    assert run(mart) == 0
    day = f"2025-10-{9 + days:02}"
    said = f"messages has a hole: 4 rows before {day} were pruned before a run could read them"
    assert said in capsys.readouterr().out
    assert present(mart)[0].tables["messages"].holes == {day: 4}
    primary.receive(1, at=NOON + 2 * DAY_MS)
    assert run(mart) == 0
    assert "hole" not in capsys.readouterr().out
    assert present(mart)[0].tables["messages"].holes == {day: 4}


def test_a_mart_that_was_begun_late_says_that_earlier_rows_are_missing(primary, run, mart, capsys):
    primary.receive(9)
    primary.execute("DELETE FROM messages WHERE id < 8")
    assert run(mart) == 0
    assert "messages has a hole: 7 rows" in capsys.readouterr().out
