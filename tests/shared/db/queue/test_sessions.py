"""Sessions: one is active for each key, whoever asks first, and what is closed is followed by a fresh one."""

import pytest

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import sessions
from tests.forks import outcomes
from tests.support import NOW, column, make_agent, make_chat, plan, put, row, take

_THREADS = 20  # more than one, because processes may come one after the other by chance


@pytest.fixture
def bob(conn):
    """An agent beside the default one."""
    return make_agent(conn, "bob")


def begin(conn, agent="assistant", chat=None, thread=None, private_to=None, now_ms=NOW):
    """The key's session, in a transaction of its own."""
    with transaction(conn):
        return sessions.ensure(conn, agent, chat, thread, private_to=private_to, now_ms=now_ms)


def test_a_key_has_one_session_however_often_it_is_asked_for(conn):
    chat = make_chat(conn)
    first = begin(conn, chat=chat)

    assert begin(conn, chat=chat, now_ms=NOW + 1) == first
    assert row(conn, "sessions", first) | {"session_id": ""} == {
        "id": first,
        "session_id": "",
        "agent": "assistant",
        "chat_id": chat,
        "thread_id": None,
        "private_to": None,
        "status": "active",
        "continuation": None,
        "continued_by": None,
        "strangers_at": None,
        "series_id": None,
        "created_at": NOW,
        "last_active": NOW,
        "closed_at": None,
        "replays": None,
    }


def test_agent_chat_thread_and_person_each_tell_sessions_apart(conn, bob):
    """An agent's own session, a chat's and a thread's never merge, though each lacks what the next one has."""
    chat, second = make_chat(conn), make_chat(conn, "200")
    keys = [
        ("assistant", None, None),
        ("assistant", chat, None),
        ("assistant", chat, "1"),
        ("assistant", chat, "2"),
        ("assistant", second, "1"),
        ("assistant", chat, None, "5"),
        ("assistant", chat, None, "6"),
        ("assistant", second, None, "5"),
        ("bob", None, None),
        ("bob", chat, "1"),
    ]

    made = [begin(conn, *key) for key in keys]

    assert len(set(made)) == len(keys)
    assert [begin(conn, *key) for key in keys] == made


def _first_messages(connection):
    made = []
    for number in range(_THREADS):
        with transaction(connection):
            made.append(sessions.ensure(connection, "assistant", 1, str(number), now_ms=NOW))
    return made


def _without_a_transaction(connection):
    """Every statement alone: between looking and making, others come first."""
    return [sessions.ensure(connection, "assistant", 1, str(number), now_ms=NOW) for number in range(_THREADS)]


@pytest.mark.parametrize("way", [_first_messages, _without_a_transaction])
def test_first_messages_at_once_are_of_one_session_for_each_thread(conn, db, way):
    assert make_chat(conn) == 1

    assert outcomes(db, way, [()] * 10) == [list(range(1, _THREADS + 1))] * 10
    assert column(conn, "SELECT count(*) FROM sessions") == [_THREADS]


def test_no_two_active_sessions_of_a_key_can_stand_in_the_table(conn):
    """Whoever writes past ``ensure`` meets the constraint."""
    begin(conn)

    with pytest.raises(Exception, match="UNIQUE"), transaction(conn):
        rows(
            conn,
            """
            INSERT INTO sessions (session_id, agent, created_at, last_active)
            VALUES ('session_second00', 'assistant', 1, 1)
            """,
        )


def test_a_closed_session_is_followed_by_a_fresh_one(conn):
    old = begin(conn)
    with transaction(conn):
        sessions.touch(conn, old, continuation="7", now_ms=NOW + 1)
        closed = sessions.close(conn, old, now_ms=NOW + 2)

    new = begin(conn, now_ms=NOW + 3)

    assert (closed.status, closed.closed_at, closed.last_active) == ("closed", NOW + 2, NOW + 1)
    assert new != old
    assert sessions.known(conn, new).continuation is None
    assert sessions.known(conn, old).continuation == "7"


def test_a_session_is_closed_once(conn):
    old = begin(conn)
    with transaction(conn):
        sessions.close(conn, old, now_ms=NOW)

    name = sessions.known(conn, old).session_id
    with pytest.raises(WrongState, match=f"session {name} is closed already"), transaction(conn):
        sessions.close(conn, old, now_ms=NOW + 1)
    assert sessions.known(conn, old).closed_at == NOW
    with pytest.raises(NotFound, match="no session 99"), transaction(conn):
        sessions.close(conn, 99, now_ms=NOW)


def test_nothing_succeeds_a_session_that_is_active(conn):
    old = begin(conn)

    with pytest.raises(WrongState, match="follows"), transaction(conn):
        sessions.succeed(conn, sessions.known(conn, old), now_ms=NOW)


def test_the_continuing_session_is_the_session_or_its_successor(conn, bob):
    old = begin(conn)
    assert sessions.going_on(conn, old, "assistant") == old
    assert sessions.going_on(conn, old, "bob") is None
    with transaction(conn):
        before = sessions.close(conn, old, now_ms=NOW)
    assert sessions.going_on(conn, old, "assistant") is None
    with transaction(conn):
        new = sessions.succeed(conn, before, now_ms=NOW)

    assert sessions.going_on(conn, old, "assistant") == new
    assert sessions.going_on(conn, 99, "assistant") is None


def test_a_turn_without_a_continuation_leaves_the_last_one(conn):
    session = begin(conn)
    with transaction(conn):
        sessions.touch(conn, session, continuation="3", now_ms=NOW + 1)
        sessions.touch(conn, session, continuation=None, now_ms=NOW + 2)

    found = sessions.known(conn, session)
    assert (found.continuation, found.last_active) == ("3", NOW + 2)


def test_pages_are_newest_first_and_filtered(conn, bob):
    chat = make_chat(conn)
    own, of_chat, of_bob = begin(conn), begin(conn, chat=chat), begin(conn, "bob", chat)
    with transaction(conn):
        sessions.close(conn, own, now_ms=NOW)

    def found(**key):
        return [each.id for each in sessions.page(conn, limit=10, **key)]

    assert found() == [of_bob, of_chat, own]
    assert found(before=of_bob) == [of_chat, own]
    assert found(agent="bob") == [of_bob]
    assert found(chat_id=chat) == [of_bob, of_chat]
    assert found(status="closed") == [own]
    assert [each.id for each in sessions.page(conn, limit=1)] == [of_bob]


def test_counts_are_of_open_messages(conn):
    put(conn, "runs")
    take(conn, limit=1)
    put(conn, "waits")
    put(conn, "waits too")
    put(conn, "context", trigger=False)
    dead = put(conn, "dead")
    rows(conn, "UPDATE messages SET status = 'dead' WHERE id = ?", (dead,))
    put(conn, "elsewhere", chat="200")

    (session,) = sessions.page(conn, chat_id=make_chat(conn), limit=1)
    assert sessions.counts(conn, session) == (2, 1, 1)


def test_counting_reads_open_messages_only(conn):
    steps = plan(conn, sessions.COUNTS, id=1, agent="assistant")

    read = [step for step in steps if "messages" in step]
    assert [step.split(" USING ")[1].split(" (")[0] for step in read] == [
        "COVERING INDEX messages_open",
        "COVERING INDEX messages_open",
        "COVERING INDEX messages_context",
    ], steps


def test_looking_up_the_active_session_is_one_step_of_its_index(conn):
    (step,) = plan(conn, sessions.ACTIVE, agent="assistant", chat=1, thread="7", private_to=None, series_id=None)

    assert "USING INDEX sessions_one_active (agent=? AND <expr>=? AND <expr>=? AND <expr>=? AND <expr>=?)" in step


@pytest.mark.parametrize("is_in_a_chat", [True, False])
def test_a_stranger_of_an_earlier_session_of_the_key_is_not_forgotten(conn, bob, is_in_a_chat):
    chat = make_chat(conn) if is_in_a_chat else None
    old, others = begin(conn, chat=chat), [begin(conn, bob, chat=chat), begin(conn, chat=chat, thread="7")]
    others.append(begin(conn, chat=None if is_in_a_chat else make_chat(conn)))
    with transaction(conn):
        sessions.note_strangers(conn, old, now_ms=NOW)
        new = sessions.succeed(conn, sessions.close(conn, old, now_ms=NOW), now_ms=NOW)
    assert [sessions.had_strangers(conn, each) for each in (old, new, *others)] == [True, True, False, False, False]


def test_strangers_are_looked_for_in_the_sessions_of_the_chat_not_of_the_agent(conn):
    def cost():
        steps = []
        conn.set_progress_handler(lambda: bool(steps.append(1)), 10)
        sessions.had_strangers(conn, own)
        conn.set_progress_handler(None)
        return len(steps)

    own = begin(conn, chat=make_chat(conn))
    alone = cost()
    for number in range(200):
        begin(conn, chat=make_chat(conn, f"2{number}"))
    assert cost() <= alone + 1
