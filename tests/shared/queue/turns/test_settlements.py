"""A turn that answers is settled whole, and its series goes on."""

import json

import apsw
import pytest

from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, ready_sessions, sessions
from shared.db.queue.messages import NewMessage
from shared.queue import turns
from shared.queue.turns import Failure, TurnReply
from tests.shared.queue.turns.ends import POLICY, fail, settle
from tests.support import LEASE, NOW, column, dump, enqueue_all, make_session, put, row, take


def test_a_turn_is_settled_whole(conn):
    put(conn, "context", trigger=False)
    put(conn, "question", platform_message_id="m7", content={"is_group": True, "context": {"token": "sealed"}})
    claim = take(conn)
    settle(conn, claim, TurnReply("one", claim.asked[0]), TurnReply("two", claim.asked[0]), now_ms=NOW + 9)
    assert column(conn, "SELECT status FROM messages") == ["completed"] * 2
    assert rows(conn, "SELECT role, sender, content, created_at FROM agent_messages ORDER BY id") == [
        ("user", "Ana", "context", NOW),
        ("user", "Ana", "question", NOW + 1),  # TinyAGI's office has only the instants to put lines in order
        ("assistant", "assistant", "one", NOW + 9),
        ("assistant", "assistant", "two", NOW + 10),
    ]
    assert rows(conn, "SELECT message, created_at FROM responses ORDER BY id") == [("one", NOW + 9), ("two", NOW + 10)]
    response = row(conn, "responses", 1)
    names = ("message_id", "in_reply_to", "channel", "platform_id", "sender", "sender_id", "original_message", "agent")
    asked = claim.asked[0]
    assert [response[name] for name in names] == [
        *(asked.message_id, asked.id, "telegram", "100", "Ana", "5", "question", "assistant")
    ]
    content = {"reply_to": "m7", "context": {"token": "sealed"}, "asked_at": NOW}
    assert json.loads(response["content"]) == content
    assert sessions.get(conn, claim.session_id).continuation == "go on"
    assert rows(conn, "SELECT type, created_at FROM events ORDER BY id")[-3:] == [
        *(("response_ready", NOW + 9), ("response_ready", NOW + 10), ("chain_step_done", NOW + 10))
    ]


def test_in_a_direct_chat_the_answer_quotes_nothing(conn):
    put(conn, platform_message_id="m7")
    settle(conn, take(conn))
    assert "reply_to" not in row(conn, "responses")["content"]


STATEMENTS = ("messages", "agent_messages", "responses", "sessions", "events")


@pytest.mark.parametrize("table", STATEMENTS)
def test_a_settlement_with_a_failing_statement_keeps_nothing(conn, table):
    put(conn)
    claim = take(conn)
    verb = "UPDATE" if table in ("messages", "sessions") else "INSERT"
    rows(conn, f"CREATE TEMP TRIGGER broken BEFORE {verb} ON main.{table} BEGIN SELECT raise(ABORT, 'broken'); END")
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError, match="broken"):
        settle(conn, claim)
    assert dump(conn) == before


@pytest.mark.parametrize("verb", ["settle", "fail", "release"])
def test_a_turn_without_its_lease_leaves_nothing(conn, verb):
    put(conn)
    lost = take(conn)
    with transaction(conn):
        turns.rescue(conn, POLICY, now_ms=NOW, everything=True)
    before = dump(conn)
    with pytest.raises(ClaimLost):  # noqa: PT012 - three verbs of different shape
        if verb == "settle":
            settle(conn, lost)
        elif verb == "fail":
            fail(conn, lost)
        else:
            with transaction(conn):
                turns.release(conn, lost, now_ms=NOW)
    assert dump(conn) == before


# -- series

DAILY = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "series_1", "kind": "task"}
NINE = NOW + 3_600_000  # 09:00 UTC


def occurrence(conn, **fields):
    put(conn, "task", process_after=NINE, scheduled_at=NINE, **{**DAILY, **fields})
    return take(conn, now_ms=NINE)


def live(conn):
    return rows(conn, "SELECT status, process_after FROM messages WHERE recurrence IS NOT NULL")


def test_an_occurrence_hands_over_when_it_is_settled(conn):
    settle(conn, occurrence(conn), now_ms=NINE + 60_000)
    assert live(conn) == [("pending", NINE + 86_400_000)]


def test_a_dead_occurrence_does_not_end_its_series(conn):
    fail(conn, occurrence(conn), Failure("no", retryable=False), now_ms=NINE)
    assert live(conn) == [("pending", NINE + 86_400_000)]


def test_a_failed_one_is_still_the_live_one(conn):
    fail(conn, occurrence(conn), now_ms=NINE)
    assert live(conn) == [("pending", NINE + 2500)]
    assert take(conn, now_ms=NINE + 2500).batch[0].message == "task"


UNUSABLE = {
    "a zone that is gone": {"timezone": "Mars/Olympus"},
    "a date that never comes": {"recurrence": "0 0 30 2 *"},
}


@pytest.mark.parametrize("fields", UNUSABLE.values(), ids=UNUSABLE)
def test_a_series_that_can_not_continue_ends_with_an_event_and_delays_no_settlement(conn, fields):
    """One bad row must not keep every turn of every session from settling."""
    settle(conn, occurrence(conn, **fields), now_ms=NINE)
    assert live(conn) == []
    assert column(conn, "SELECT status FROM messages") == ["completed"]
    (reason,) = column(conn, "SELECT data ->> 'reason' FROM events WHERE type = 'series_ended'")
    assert next(iter(fields.values())) in reason


def test_the_session_of_a_settled_turn_is_free_again(conn):
    put(conn)
    put(conn)
    settle(conn, take(conn, limit=1))
    assert [each.session_id for each in ready_sessions.find(conn, now_ms=NOW)] == [make_session(conn)[1]]


def test_a_large_turn_keeps_the_prepared_statements_of_the_next_one(conn):
    """apsw keeps the statements that were used last, and counts each row of an ``executemany`` as a use."""
    _, session = make_session(conn)
    new = NewMessage(id_prefix="telegram", agent="assistant", session_id=session, sender="Ana", message="hello")

    def turn():
        with transaction(conn):
            enqueue_all(conn, [new] * 20, now_ms=NOW)
        with transaction(conn):
            claim = claims.claim(conn, "assistant", session, token="t", now_ms=NOW, lease_ms=LEASE, limit=20)
        with transaction(conn):
            turns.settle(conn, claim, [TurnReply("hi", each) for each in claim.asked], None, now_ms=NOW)
        assert len(claim.asked) == 20

    turn()
    prepared = conn.cache_stats()["misses"]
    turn()
    assert conn.cache_stats()["misses"] == prepared
