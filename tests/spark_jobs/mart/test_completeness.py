from datetime import datetime

import pytest

from spark_jobs.mart.places import present
from tests.spark_jobs.mart.publishing import DAY_MS, NOON, event, rows_of

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


def answered(primary, row, at):
    primary.execute(
        "INSERT INTO responses (id, message_id, channel, sender, message, original_message, agent, created_at)"
        " VALUES (?, 'm', 'c', '', '', '', 'a', ?)",
        [(row, at)],
    )
    event(primary, "response_ready", at, message_id="m", response_id=row)


def received(primary, count, at):
    """Messages, each with its event."""
    (first,) = primary.execute("SELECT ifnull(max(id), 0) FROM messages")[0]
    primary.receive(count, at=at)
    for number in range(first, first + count):
        event(primary, "message_received", at, message_id=f"m_{number}")


def unseen(place):
    tables = present(place)[0].tables
    return {name: table.unseen for name, table in tables.items() if table.unseen}


def test_events_whose_rows_no_run_has_seen_are_counted_by_their_day(primary, run, mart, capsys):
    received(primary, 2, NOON)
    answered(primary, 1, NOON)
    assert run(mart) == 0
    assert unseen(mart) == {}
    received(primary, 3, NOON)
    received(primary, 4, NOON + DAY_MS)
    answered(primary, 2, NOON + DAY_MS)
    received(primary, 1, NOON + 2 * DAY_MS)
    answered(primary, 3, NOON + 2 * DAY_MS)
    primary.execute("DELETE FROM messages WHERE id <= 8")  # also what the mart has
    primary.execute("DELETE FROM responses WHERE id <= 2")
    capsys.readouterr()
    assert run(mart) == 0
    counted = {"messages": {"2025-10-09": 3, "2025-10-10": 3}, "responses": {"2025-10-10": 1}}
    assert unseen(mart) == counted
    said = capsys.readouterr().out
    assert "events tell of 6 messages of 2025-10-09, 2025-10-10 that were pruned before a run could read them" in said
    assert "events tell of 1 responses of 2025-10-10 that were pruned" in said
    received(primary, 1, NOON + 3 * DAY_MS)
    assert run(mart) == 0
    assert "events tell" not in capsys.readouterr().out
    assert unseen(mart) == counted


def test_an_event_that_comes_a_run_after_its_row_tells_of_nothing_unseen(primary, run, mart):
    primary.receive(1)
    event(primary, "message_received", NOON, message_id="another")
    assert run(mart) == 0
    event(primary, "message_received", NOON, message_id="m_0")
    primary.receive(1)
    primary.execute("DELETE FROM messages WHERE id = 1")
    assert run(mart) == 0
    assert unseen(mart) == {"messages": {"2025-10-09": 1}}


def test_a_mart_that_was_begun_late_counts_what_its_events_tell_of(primary, run, mart):
    received(primary, 5, NOON)
    received(primary, 5, NOON + DAY_MS)
    primary.execute("DELETE FROM messages WHERE id <= 7")
    assert run(mart) == 0
    assert unseen(mart) == {"messages": {"2025-10-09": 5, "2025-10-10": 2}}
