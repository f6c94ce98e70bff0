"""Deadlines of what an agent hands over."""

import json

import pytest

from shared.agents.answer_tags import ToTeammates
from shared.core.errors import WrongState
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import claims, ready_sessions
from shared.queue import turns
from shared.queue.teamwork import deadlines, mailbox
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import LEASE, NOW, column, put, row, take, texts

HALF_HOUR = 30 * 60_000
WAKE = "SELECT status FROM messages WHERE kind = 'system' AND trigger = 1"
SAID = "SELECT platform_id, message FROM responses ORDER BY id"


def hand_over(conn, within_ms=HALF_HOUR, text="find out why"):
    """Ana asks; the assistant hands over; the row of the hand-off."""
    put(conn, "why is it red?")
    claim = take(conn)
    tag = ToTeammates(("bob",), text, within_ms=within_ms)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("I ask Bob.", claim.asked[0], (tag,))], None, now_ms=NOW)
    return column(conn, "SELECT id FROM messages WHERE agent = 'bob'")[0]


def bobs_turn(conn, now_ms=NOW):
    session = column(conn, "SELECT session_id FROM messages WHERE agent = 'bob'")[0]
    with transaction(conn):
        return claims.claim(conn, "bob", session, token="turn_b", now_ms=now_ms, lease_ms=LEASE, limit=10)


def settle(conn, claim, text, now_ms=NOW):
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(text, claim.asked[0])], None, now_ms=now_ms)


def test_the_agent_that_asked_is_woken_when_the_time_is_up(conn, team):
    hand_over(conn)
    assert take(conn, now_ms=NOW + HALF_HOUR - 1, token="early") is None
    assert ready_sessions.next_due(conn, now_ms=NOW + 1) == NOW + HALF_HOUR
    claim = take(conn, now_ms=NOW + HALF_HOUR, token="late")
    (told,) = texts(claim)
    assert told.startswith("Agent bob has not answered within 30 min what you handed over: “find out why” list_team")
    assert (claim.asked[0].kind, claim.asked[0].trigger) == ("system", True)


def test_what_it_says_then_goes_to_the_person_and_it_is_woken_once(conn, team):
    hand_over(conn)
    later = NOW + HALF_HOUR
    settle(conn, take(conn, now_ms=later, token="late"), "Bob is late, I look myself.", later)
    assert rows(conn, SAID)[-1] == ("100", "Bob is late, I look myself.")
    assert column(conn, WAKE) == ["completed"]
    assert take(conn, now_ms=later + 10 * HALF_HOUR, token="again") is None


def test_an_answer_in_time_cancels_it(conn, team):
    hand_over(conn)
    settle(conn, bobs_turn(conn), "a flaky test")
    assert column(conn, WAKE) == ["cancelled"]
    claim = take(conn, token="turn_c")
    assert texts(claim) == ["a flaky test"]
    settle(conn, claim, "Bob says: a flaky test")
    assert take(conn, now_ms=NOW + HALF_HOUR, token="late") is None


def test_so_does_a_reply_by_hand(conn, team):
    question = hand_over(conn)
    with transaction(conn):
        mailbox.reply(conn, question, "done", now_ms=NOW)
    assert column(conn, WAKE) == ["cancelled"]


def test_so_does_the_end_of_the_work_which_is_told_anyway(conn, team):
    hand_over(conn)
    claim = bobs_turn(conn)
    with transaction(conn):
        turns.fail(conn, claim, Failure("broke", retryable=False), RetryPolicy(5, 1, 1, 0.0), now_ms=NOW)
    assert column(conn, WAKE) == ["cancelled"]


def test_an_answer_while_its_agent_is_told_ends_no_turn(conn, team):
    hand_over(conn)
    woken = take(conn, now_ms=NOW + HALF_HOUR, token="late")
    settle(conn, bobs_turn(conn, NOW + HALF_HOUR), "a flaky test", NOW + HALF_HOUR)
    assert claims.is_held(conn, woken)
    settle(conn, woken, "He is late.", NOW + HALF_HOUR)
    assert column(conn, WAKE) == ["completed"]


def test_it_survives_the_end_of_every_process(conn, db, team):
    hand_over(conn)
    conn.close()
    again = open_connection(db)
    try:
        claim = take(again, now_ms=NOW + HALF_HOUR, token="late")
        assert texts(claim)[0].startswith("Agent bob has not answered")
    finally:
        again.close()


def test_its_turn_counts_as_a_hop_so_a_chain_of_deadlines_ends(conn, team):
    hand_over(conn)
    wake = row(conn, "messages", column(conn, "SELECT id FROM messages WHERE kind = 'system' AND trigger = 1")[0])
    asked = row(conn, "messages", 1)
    assert {name: json.loads(wake["content"])[name] for name in ("hops", "origin")} == {
        "hops": 1,
        "origin": asked["message_id"],
    }


def test_without_a_deadline_nobody_is_woken(conn, team):
    hand_over(conn, within_ms=None)
    assert column(conn, WAKE) == []


@pytest.mark.parametrize("within_ms", [0, 9_999, 30 * 24 * 3_600_000 + 1])
def test_a_deadline_that_is_none_is_refused_and_told(conn, team, within_ms):
    put(conn)
    claim = take(conn)
    with transaction(conn):
        tag = ToTeammates(("bob",), "x", within_ms=within_ms)
        turns.settle(conn, claim, [TurnReply("", claim.asked[0], (tag,))], None, now_ms=NOW)
    assert column(conn, "SELECT 1 FROM messages WHERE agent = 'bob'") == []
    (note,) = column(conn, "SELECT message FROM messages WHERE kind = 'system'")
    assert "a deadline is from 10 s to 30 days away" in note
    with pytest.raises(WrongState):
        deadlines.checked(within_ms)


WORDS = {0: "0 s", 59_999: "59 s", 60_000: "1 min", 5_400_000: "1 h 30 min", 90_061_000: "25 h 1 min"}


@pytest.mark.parametrize(("duration_ms", "said"), WORDS.items())
def test_durations_in_words(duration_ms, said):
    assert deadlines.in_words(duration_ms) == said
