from shared.db.engine.connection import rows, transaction
from shared.queue import cancellations, replies, spoken
from shared.queue.turns import CUT_OFF
from tests.support import NOW, make_agent, put, take, texts


def cancel(conn, row_id):
    with transaction(conn):
        return cancellations.cancel(conn, row_id, reason="cancelled by hand", now_ms=NOW)


def say(conn, claim):
    new = replies.response(claim.asked[0], "on my way", agent=claim.agent, session_id=claim.session_id)
    with transaction(conn):
        spoken.say(conn, claim, new, key="c", now_ms=NOW)


def states(conn):
    return rows(conn, "SELECT message, status, failure FROM messages ORDER BY id")


def test_the_others_of_a_silent_turn_are_pending_again(conn):
    put(conn, "one")
    put(conn, "two")
    take(conn)
    cancel(conn, 1)
    assert states(conn) == [("one", "cancelled", None), ("two", "pending", None)]


def test_the_others_of_a_turn_that_had_spoken_end_with_it_and_one_sentence(conn):
    for text in ("one", "two", "three"):
        put(conn, text)
    say(conn, take(conn))
    cancel(conn, 1)
    assert states(conn) == [
        ("one", "cancelled", None),
        ("two", "dead", "interrupted"),
        ("three", "dead", "interrupted"),
    ]
    assert rows(conn, "SELECT message FROM responses ORDER BY id") == [("on my way",), (CUT_OFF,)]


def test_the_others_go_on_where_the_agents_row_lets_them(conn):
    make_agent(conn, "assistant", resume_spoken=True)
    put(conn, "one")
    put(conn, "two")
    say(conn, take(conn))
    cancel(conn, 1)
    again = take(conn, token="turn_b")
    assert (texts(again), again.goes_on) == (["two"], True)
    assert rows(conn, "SELECT message FROM responses") == [("on my way",)]


def test_a_message_that_waits_is_cancelled_too(conn):
    put(conn, "one")
    assert cancel(conn, 1).id == 1
    assert states(conn) == [("one", "cancelled", None)]
