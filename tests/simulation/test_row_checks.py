"""Rules of waits, schedules and budgets: each says so where one thing is broken, and else nothing."""

from functools import partial

import apsw
import pytest

from shared.db.access import questions, tool_calls
from shared.db.engine.connection import rows, transaction
from shared.db.queue import events, messages
from shared.db.spending import budgets
from shared.queue import spoken, turns
from shared.queue.turns import Failure, RetryPolicy
from tests.simulation import row_checks
from tests.simulation.row_checks import WaitWatch
from tests.support import LEASE, NOW, make_agent, put, take

HOUR = 3_600_000
POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
RUN = "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone) VALUES {}"
FOUR_RUNS = ", ".join(f"('s', 'm{at}', {at * HOUR}, 1, '0 * * * *', 'UTC')" for at in (1, 2, 3, 5))


@pytest.mark.parametrize(
    ("runs", "problem"),
    [
        (f"{FOUR_RUNS}, ('s', 'n', {HOUR}, 1, NULL, NULL)", f"series s had two runs for {HOUR}"),
        (FOUR_RUNS, f"series s has no run for {4 * HOUR}"),
    ],
)
def test_a_run_that_is_doubled_or_lacks_is_told(conn: apsw.Connection, runs: str, problem: str) -> None:
    conn.execute(RUN.format(runs))
    assert problem in row_checks.schedules(partial(rows, conn))


def test_an_instant_that_is_noted_as_missed_needs_no_run_but_with_catch_up(conn: apsw.Connection) -> None:
    conn.execute(RUN.format(FOUR_RUNS))
    note = "INSERT INTO missed_runs VALUES (NULL, 's', 'm5', ?, NULL, '0 * * * *', 'UTC', 'coalesced', 1)"
    rows(conn, note, (4 * HOUR,))
    assert row_checks.schedules(partial(rows, conn)) == []
    put(conn, "task", series_id="s")
    rows(conn, "UPDATE messages SET misfire = 'catch_up' WHERE series_id = 's'")
    assert len(row_checks.schedules(partial(rows, conn))) == 1


def test_a_row_that_waits_longer_than_it_asked_for_is_told_once_if_no_sweep_moves_it(conn: apsw.Connection) -> None:
    put(conn)
    claim = take(conn)
    with transaction(conn):
        turns.fail(conn, claim, Failure("it broke"), POLICY, now_ms=NOW)
    query = partial(rows, conn)
    watch = WaitWatch(lease_ms=LEASE, patience=130)
    assert [watch.look(query, now_ms=NOW, steady=at) for at in (0, 1000)] == [[], []]
    back = NOW - 24 * HOUR
    assert [bool(watch.look(query, now_ms=back, steady=at)) for at in (1000, 1130, 1131, 1200)] == [
        False,
        False,
        True,
        False,
    ]
    rows(conn, "UPDATE messages SET process_after = :now, updated_at = :now", {"now": back})
    assert watch.look(query, now_ms=back, steady=5000) == []


def test_a_budget_that_is_passed_by_more_than_it_may_is_told(conn: apsw.Connection) -> None:
    make_agent(conn, "poor")
    with transaction(conn):
        budgets.put(conn, "poor", "day", "tokens", 100, now_ms=NOW)
        rows(
            conn,
            "INSERT INTO usage (turn, agent, session, model, paid_by, requests, input, output, cache_read, cache_write,"
            " created_at, updated_at) VALUES ('t', 'poor', 's', 'm', 'plan', 1, 90, 15, 5, 5, :now, :now)",
            {"now": NOW},
        )
    query = partial(rows, conn)
    assert row_checks.budgets(query, past=15) == []
    assert row_checks.budgets(query, past=14) == [
        f"poor used 115 tokens of 100 in the day of {NOW - NOW % (24 * HOUR)}"
    ]


def test_an_act_of_a_turn_without_the_answer_of_its_tool_is_told(conn: apsw.Connection) -> None:
    put(conn, "one")
    claim = take(conn)
    with transaction(conn):
        spoken.act(conn, claim, key="k", now_ms=NOW)
    assert row_checks.calls(partial(rows, conn)) == [f"turn {claim.token} did k, and its tool did not end"]
    with transaction(conn):
        tool_calls.put(conn, claim.token, "k", "send_to_agent", "Sent.", now_ms=NOW)
    assert row_checks.calls(partial(rows, conn)) == []


def test_a_message_that_is_lost_again_and_again_is_told(conn: apsw.Connection) -> None:
    lost = (
        "INSERT INTO events (type, message_id, data, created_at)"
        """ VALUES ('message_retry', 'm', '{"failure": "process_gone"}', 1)"""
    )
    for _ in range(100):
        rows(conn, lost)
    assert row_checks.losses(partial(rows, conn)) == []
    rows(conn, lost)
    assert row_checks.losses(partial(rows, conn)) == ["m was lost 101 times with its dispatch, and goes on"]


def test_a_message_whose_arrival_no_event_tells_or_two_is_told(conn: apsw.Connection) -> None:
    put(conn)
    with transaction(conn):
        messages.announce(conn)
    query = partial(rows, conn)
    assert row_checks.arrivals(query) == []
    events.append(conn, "message_received", now_ms=NOW, message_id=query("SELECT message_id FROM messages")[0][0])
    assert "is told by 2 events" in "".join(row_checks.arrivals(query))
    conn.execute("DELETE FROM events")
    assert "is told by 0 events" in "".join(row_checks.arrivals(query))


def test_an_answer_to_a_question_that_no_agent_gets_is_told(conn: apsw.Connection) -> None:
    row = put(conn, "yes")
    ((session,),) = rows(conn, "SELECT session_id FROM messages WHERE id = :id", {"id": row})
    asked = questions.ask(conn, session_id=session, question="May I?", options=("yes",), expires_at=NOW + 1, now_ms=NOW)
    questions.answer(conn, asked, "yes", answered_by="Ada", click="a press", now_ms=NOW)
    query = partial(rows, conn)
    assert row_checks.questions(query) == []
    conn.execute("DELETE FROM messages")
    assert row_checks.questions(query) == [f"{asked} was answered with 'yes', and nobody was told"]
