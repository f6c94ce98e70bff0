"""Each promise holds in a sound database, and says so where one thing is broken."""

from functools import partial

import pytest

from emulator.proving import row_promises
from emulator.proving.row_promises import WaitWatch
from shared.db.engine.connection import rows, transaction
from shared.db.spending import budgets
from shared.queue import replies, spoken, turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import LEASE, NOW, make_agent, put, take

HOUR = 3_600_000
POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)


def run(conn, chat, *said, failure=None):
    claim = take(conn, chat=chat, token=f"turn {chat} {said}")
    with transaction(conn):
        if failure is None:
            turns.settle(conn, claim, [TurnReply(each, claim.asked[0]) for each in said], None, now_ms=NOW)
        else:
            turns.fail(conn, claim, failure, POLICY, now_ms=NOW)
    return claim


@pytest.fixture
def world(conn):
    """Two chats: two answers, one of them after a retry, and one message that can't be answered."""
    put(conn, "one", chat="100", event_key="1")
    put(conn, "bad", chat="200", event_key="2")
    run(conn, "100", failure=Failure("it broke"))
    rows(conn, "UPDATE messages SET process_after = NULL")
    run(conn, "100", "re one")
    run(conn, "200", failure=Failure("no", retryable=False))
    put(conn, "two", chat="100", event_key="3")
    run(conn, "100", "re two")


def everything(conn):
    query = partial(rows, conn)
    found = row_promises.outcomes(query, [("telegram", key) for key in "123"])
    assert sum(found.counts.values()) == 3
    return [
        *found.problems,
        *row_promises.never_dropped(query),
        *row_promises.turns(query),
        *row_promises.spoke_once(query),
        *row_promises.schedules(query),
        *row_promises.budgets(query, past=0),
    ]


def test_every_promise_holds_where_nothing_is_broken(conn, world):
    assert everything(conn) == []
    found = row_promises.outcomes(partial(rows, conn), [("telegram", key) for key in "123"])
    assert found.counts == {"answered": 2, "dead": 1}


DROP = "INSERT INTO dropped (channel, event_key, reason, created_at) VALUES ('telegram', '{}', '{}', 1)"
RUN = "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone) VALUES {}"
FOUR_RUNS = ", ".join(f"('s', 'm{at}', {at * HOUR}, 1, '0 * * * *', 'UTC')" for at in (1, 2, 3, 5))
AGAIN = """
INSERT INTO events (type, message_id, agent, session_id, data, created_at)
SELECT type, message_id, agent, session_id, data, 1 FROM events WHERE type = 'chain_step_start' AND id = {}
"""
FIRST_START = "(SELECT min(id) FROM events WHERE type = 'chain_step_start')"

BREAKS = {
    "an event is gone": ("DELETE FROM messages WHERE message = 'two'", "lost: ('telegram', '3')"),
    "an event is dropped": (DROP.format(9, "rate_limited"), "dropped without need: event 9"),
    "an event is refused and answered": (DROP.format(1, "rate_limited"), "('telegram', '1') was dropped, and also"),
    "an event is dropped without a reason": (DROP.format(1, ""), "is dropped without a reason"),
    "a message is dead for no reason": ("UPDATE messages SET last_error = NULL", "is dead without a reason"),
    "a turn begins beside another": (AGAIN.format(f"{FIRST_START}; {AGAIN.format(FIRST_START)}"), "while ["),
    "a turn begins behind another": (AGAIN.format(FIRST_START), "took [1] after 3"),
    "a run is doubled": (f"{RUN.format(FOUR_RUNS)}, ('s', 'n', {HOUR}, 1, NULL, NULL)", "had two runs for 3600000"),
    "a run lacks": (RUN.format(FOUR_RUNS), f"series s has no run for {4 * HOUR}"),
}


@pytest.mark.parametrize(("sql", "problem"), BREAKS.values(), ids=BREAKS)
def test_what_is_broken_is_told(conn, world, sql, problem):
    conn.execute(sql)
    assert problem in "\n".join(everything(conn))


def test_an_instant_that_is_noted_as_missed_needs_no_run_but_with_catch_up(conn, world):
    conn.execute(RUN.format(FOUR_RUNS))
    note = "INSERT INTO missed_runs VALUES (NULL, 's', 'm5', ?, NULL, '0 * * * *', 'UTC', 'coalesced', 1)"
    rows(conn, note, (4 * HOUR,))
    assert row_promises.schedules(partial(rows, conn)) == []
    put(conn, "task", series_id="s")
    rows(conn, "UPDATE messages SET misfire = 'catch_up' WHERE series_id = 's'")
    assert len(row_promises.schedules(partial(rows, conn))) == 1


def test_a_turn_that_spoke_and_is_run_again_is_told(conn):
    put(conn, "one")
    claim = take(conn)
    new = replies.response(claim.asked[0], "on my way", agent=claim.agent, session_id=claim.session_id)
    with transaction(conn):
        spoken.say(conn, claim, new, key="k", now_ms=NOW)
    assert row_promises.spoke_once(partial(rows, conn)) == []
    conn.execute(AGAIN.format(FIRST_START))
    assert row_promises.spoke_once(partial(rows, conn)) != []
    rows(conn, "UPDATE agents SET resume_spoken = 1")
    assert row_promises.spoke_once(partial(rows, conn)) == []


def test_a_private_text_in_another_place_is_told():
    secrets = {"m7": {"chat 5", "session private"}}
    assert row_promises.private([("chat 5", "re m7"), ("session private", "m7"), ("chat 6", "re m8")], secrets) == []
    assert row_promises.private([("chat 6", "re m7")], secrets) != []


def test_a_row_that_waits_longer_than_it_asked_for_is_told_once_if_no_sweep_moves_it(conn):
    put(conn)
    run(conn, "100", failure=Failure("it broke"))
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


def test_a_budget_that_is_passed_by_more_than_it_may_is_told(conn):
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
    assert row_promises.budgets(query, past=15) == []
    assert row_promises.budgets(query, past=14) == [
        f"poor used 115 tokens of 100 in the day of {NOW - NOW % (24 * HOUR)}"
    ]
