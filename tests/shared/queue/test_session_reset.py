"""A fresh start: what is closed, what goes on, and what becomes of everything that waits."""

import pytest

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages, ready_sessions, replays, sessions
from shared.queue import session_reset
from shared.queue.teamwork import mailbox
from tests.forks import outcomes
from tests.shared.queue.resetting import DAILY, HOUR, newest, of, reset, settle
from tests.support import NOW, column, make_agent, make_chat, plan, put, row, take, texts


def test_a_reset_closes_the_session_and_a_fresh_one_replaces_it(conn, session):
    put(conn, "my name is Ana")
    settle(conn, take(conn), "Hello Ana", continuation="41")

    new = reset(conn, session)

    fresh, old = sessions.known(conn, new), sessions.known(conn, session)
    assert (fresh.status, fresh.continuation, fresh.replays) == ("active", None, None)
    assert (fresh.agent, fresh.chat_id, fresh.thread_id) == (old.agent, old.chat_id, old.thread_id)
    assert (old.status, old.closed_at, old.continuation) == ("closed", NOW + 1, "41")
    assert of(conn, session) == [("my name is Ana", "completed")]
    assert newest(conn) == ("session_reset", {"session": fresh.session_id, "before": old.session_id}, new)


def test_the_next_message_belongs_to_the_fresh_session(conn, session):
    new = reset(conn, session)

    put(conn, "who am I?")

    assert of(conn, new) == [("who am I?", "pending")]


def test_a_session_is_reset_once(conn, session):
    reset(conn, session)

    with pytest.raises(WrongState, match="closed already"):
        reset(conn, session)
    with pytest.raises(NotFound, match="no session 99"):
        reset(conn, 99)
    assert column(conn, "SELECT count(*) FROM sessions") == [2]


def test_clear_resets_the_active_session_of_the_key(conn, session):
    chat = make_chat(conn)
    with transaction(conn):
        assert session_reset.clear(conn, "assistant", chat, "7", now_ms=NOW) is None
        new = session_reset.clear(conn, "assistant", chat, None, now_ms=NOW)
        again = session_reset.clear(conn, "assistant", chat, None, now_ms=NOW)

    assert session < new < again
    assert column(conn, "SELECT id FROM sessions WHERE status = 'active'") == [again]


def test_a_running_turn_ends_in_its_closed_session(conn, session):
    """Its answer goes out, and how it goes on is remembered there and not in the fresh one."""
    put(conn, "a long question")
    claim = take(conn)
    new = reset(conn, session)

    settle(conn, claim, "a long answer", continuation="9", now_ms=NOW + 2)

    assert row(conn, "responses")["message"] == "a long answer"
    assert sessions.known(conn, session).continuation == "9"
    assert sessions.known(conn, new).continuation is None


def test_a_pending_message_of_a_closed_session_still_runs_there(conn, session):
    put(conn, "context of it", trigger=False)
    put(conn, "waits")
    reset(conn, session)

    with transaction(conn):
        (ready,) = ready_sessions.find(conn, now_ms=NOW)
        claim = claims.claim(conn, ready.agent, ready.session_id, token="turn_a", now_ms=NOW, lease_ms=1000, limit=10)

    assert ready.session_id == session
    assert texts(claim) == ["context of it", "waits"]


def test_context_without_a_later_turn_is_completed(conn, session):
    """Else it would wait for ever in the closed session: nothing that asks for a turn comes there any more."""
    put(conn, "before the question", trigger=False)
    put(conn, "question")
    put(conn, "after the question", trigger=False)

    reset(conn, session)

    assert of(conn, session) == [
        ("before the question", "pending"),
        ("question", "pending"),
        ("after the question", "completed"),
    ]


def test_accumulated_context_does_not_reach_the_fresh_session(conn, session):
    put(conn, "old gossip", trigger=False)
    new = reset(conn, session)

    put(conn, "question")

    assert texts(take(conn)) == ["question"]
    assert of(conn, session) == [("old gossip", "completed")]
    assert of(conn, new) == [("question", "processing")]


def forget(conn, limit=3):
    """One batch of the sweep's."""
    with transaction(conn):
        return replays.forget(conn, limit=limit, now_ms=NOW)


def test_more_context_than_one_transaction_takes_is_forgotten_later(conn, session):
    for number in range(5):
        put(conn, str(number), trigger=False)
    question = put(conn, "question")
    with transaction(conn):
        sessions.close(conn, session, now_ms=NOW)
    assert forget(conn) == 0  # the question will ask for it
    with transaction(conn):
        messages.cancel(conn, question, reason="test", now_ms=NOW)

    assert [forget(conn) for _ in range(3)] == [3, 2, 0]
    assert column(conn, "SELECT DISTINCT status FROM messages WHERE trigger = 0") == ["completed"]


def test_one_batch_forgets_context_of_several_sessions(conn):
    for chat in ("100", "200", "300"):
        put(conn, "context", chat=chat, trigger=False)
        put(conn, "more", chat=chat, trigger=False)
    with transaction(conn):
        for each in sessions.page(conn, limit=10):
            sessions.close(conn, each.id, now_ms=NOW)

    assert [forget(conn, limit=4) for _ in range(3)] == [4, 2, 0]


def test_context_of_an_active_session_is_never_forgotten(conn, session):
    put(conn, "context", trigger=False)

    assert forget(conn) == 0


def _reset_at_once(connection):
    try:
        with transaction(connection):
            session_reset.reset(connection, 1, now_ms=NOW)
    except WrongState:
        return "closed already"
    return "reset"


def test_of_many_resets_at_once_one_counts(conn, db, session):
    """Two admins who clear at once don't close each other's fresh session."""
    assert session == 1

    assert sorted(outcomes(db, _reset_at_once, [()] * 6)) == ["closed already"] * 5 + ["reset"]
    assert column(conn, "SELECT status FROM sessions ORDER BY id") == ["closed", "active"]


def test_planned_messages_move_to_the_fresh_session(conn, session):
    put(conn, "every day", process_after=NOW + HOUR, **DAILY)
    put(conn, "paused", status="paused", process_after=NOW + HOUR, series_id="task_paused00")
    put(conn, "waits for another try", process_after=NOW + HOUR)
    put(conn, "due", process_after=NOW, series_id="task_due00000")

    new = reset(conn, session)

    assert of(conn, new) == [("every day", "pending"), ("paused", "paused")]
    assert of(conn, session) == [("waits for another try", "pending"), ("due", "pending")]


def test_a_private_session_hands_its_series_to_its_own_successor(conn, session):
    chat = sessions.known(conn, session).chat_id
    with transaction(conn):
        private = sessions.ensure(conn, "assistant", chat, None, private_to="5", now_ms=NOW)
    put(conn, "every day", process_after=NOW, **(DAILY | {"scheduled_at": NOW}))
    rows(conn, "UPDATE messages SET session_id = ?", (private,))
    with transaction(conn):
        claim = claims.claim(conn, "assistant", private, token="t", now_ms=NOW, lease_ms=1000, limit=9)
    new = reset(conn, private)
    settle(conn, claim, "done", now_ms=NOW + 2)
    assert sessions.known(conn, new).private_to == "5"
    assert of(conn, new) == [("every day", "pending")]
    assert of(conn, session) == []


def test_a_running_occurrence_hands_its_series_to_the_fresh_session(conn, session):
    put(conn, "every day", process_after=NOW, **(DAILY | {"scheduled_at": NOW}))
    claim = take(conn)
    new = reset(conn, session)

    settle(conn, claim, "done", now_ms=NOW + 2)

    assert of(conn, session) == [("every day", "completed")]
    assert of(conn, new) == [("every day", "pending")]


def test_the_answer_of_another_agent_reaches_the_fresh_session(conn, session):
    """Alice asked Bob for Ana, and was reset while he thought: his answer is not lost among Alice's own mail."""
    make_agent(conn, "bob")
    cause = put(conn, "ask bob")
    with transaction(conn):
        asked = mailbox.send(conn, "assistant", "bob", "how much?", because=cause, now_ms=NOW)
    new = reset(conn, session)

    with transaction(conn):
        mailbox.reply(conn, asked, "42", now_ms=NOW + 2)

    assert of(conn, new) == [("42", "pending")]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (replays.MOVE, {"agent": "a", "old": 1, "new": 2, "now": NOW}),
        (replays.MOVE_PAUSED, {"old": 1, "new": 2, "now": NOW}),
        (replays.LEAVE, {"agent": "a", "session": 1, "now": NOW, "limit": 5}),
        (replays.LEFT, {"limit": 5}),
        (replays.SHOWN, {"rows": "[1]"}),
        (replays.ANSWERS, {"rows": "[1]"}),
    ],
)
def test_no_statement_reads_a_whole_table(conn, sql, parameters):
    """With ten million finished messages a reset holds the write lock no longer than with none."""
    steps = plan(conn, sql, **parameters)

    bad = [step for step in steps if step.startswith("SCAN") and "waiting" not in step and "json_each" not in step]
    assert not [step for step in bad if "INDEX messages_resting" not in step], steps
