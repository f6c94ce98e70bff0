"""The own session of a schedule ends after its last run."""

from functions.recurrence import Recurrence
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, sessions
from shared.db.queue.messages import NewMessage
from shared.queue import series, turns
from shared.queue.agent_notes import leave
from shared.queue.series import When
from shared.queue.turns import TurnReply
from tests.functions.sweep.kit import DAY, NINE, done, run, sweep_at
from tests.support import LEASE, NOW, column, make_session, put


def own_session(conn, recurrence):
    """A schedule with a session of its own, from NINE on; the row of the session."""
    chat, chat_session = make_session(conn)
    with transaction(conn):
        task = NewMessage(
            "task",
            "telegram",
            chat,
            sender="Ana",
            message="water",
            agent="assistant",
            session_id=chat_session,
            kind="task",
        )
        new = series.own_session(conn, task, sessions.known(conn, chat_session), now_ms=NOW)
        series.plan_message(conn, new, When(NINE, recurrence), now_ms=NOW)
    return new.session_id


def run_task(conn, session, now_ms):
    """A turn of the session, with an answer."""
    with transaction(conn):
        claim = claims.claim(conn, "assistant", session, token="turn_a", now_ms=now_ms, lease_ms=LEASE, limit=9)
        turns.settle(conn, claim, [TurnReply("done", claim.asked[0])], None, now_ms=now_ms)


def status_of(conn, session):
    return sessions.known(conn, session).status


def test_the_own_session_of_a_schedule_is_closed_a_day_after_the_last_run(conn):
    session = own_session(conn, None)
    sweep_at(NINE + 9 * DAY)  # it waits: the agent is paused, or dispatch is away
    assert status_of(conn, session) == "active"
    run_task(conn, session, NINE)
    with transaction(conn):
        leave(conn, "an answer was not delivered", agent="assistant", session_id=session, origin=None, now_ms=NINE)
    put(conn, "the answer of another agent")
    rows(conn, f"UPDATE messages SET session_id = {session} WHERE message = 'the answer of another agent'")
    assert "closed_sessions" not in done(sweep_at(NINE + DAY + 1))
    rows(conn, "UPDATE messages SET status = 'completed' WHERE trigger = 1")
    assert "closed_sessions" not in done(sweep_at(NINE + DAY))
    assert done(sweep_at(NINE + DAY + 1))["closed_sessions"] == 1
    assert status_of(conn, session) == "closed"
    assert column(conn, "SELECT count(*) FROM sessions WHERE status = 'active' AND series_id IS NULL") == [1]
    assert column(conn, "SELECT count(*) FROM messages WHERE status = 'pending'") == [0]


def test_the_own_session_of_a_schedule_that_goes_on_stays_and_ends_with_it(conn):
    session = own_session(conn, "0 9 * * *")
    series_id = sessions.known(conn, session).series_id
    run_task(conn, session, NINE)
    rows(conn, "DELETE FROM messages WHERE status = 'pending'")  # it ended, and recurrence has not looked yet
    rows(conn, "UPDATE messages SET recurrence = '0 9 * * *'")
    sweep_at(NINE + 40 * DAY)
    assert status_of(conn, session) == "active"
    run(Recurrence, NINE + 40 * DAY)
    with transaction(conn):
        series.pause(conn, series_id, now_ms=NINE + 40 * DAY)
    sweep_at(NINE + 80 * DAY)
    assert status_of(conn, session) == "active"
    with transaction(conn):
        series.cancel(conn, series_id, now_ms=NINE + 80 * DAY)
    assert done(sweep_at(NINE + 80 * DAY))["closed_sessions"] == 1
    assert status_of(conn, session) == "closed"
