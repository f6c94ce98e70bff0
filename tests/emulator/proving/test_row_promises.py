"""Each promise holds in a sound database, and says so where one thing is broken."""

from functools import partial

import pytest

from emulator.proving import row_promises
from shared.db.engine.connection import rows, transaction
from shared.queue import replies, spoken, turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import NOW, put, take

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
        *row_promises.attempts(query),
        *row_promises.spoke_once(query),
        *row_promises.histories(query),
    ]


def test_every_promise_holds_where_nothing_is_broken(conn, world):
    assert everything(conn) == []
    found = row_promises.outcomes(partial(rows, conn), [("telegram", key) for key in "123"])
    assert found.counts == {"answered": 2, "dead": 1}


DROP = "INSERT INTO dropped (channel, event_key, reason, created_at) VALUES ('telegram', '{}', '{}', 1)"
AGAIN = """
INSERT INTO events (type, message_id, agent, session_id, data, created_at)
SELECT type, message_id, agent, session_id, data, 1 FROM events WHERE id = {}
"""
FIRST_START, FIRST_DONE, FIRST_RETRY = (
    f"(SELECT min(id) FROM events WHERE type = '{each}')"
    for each in ("chain_step_start", "chain_step_done", "message_retry")
)

BREAKS = {
    "an event is gone": ("DELETE FROM messages WHERE message = 'two'", "lost: ('telegram', '3')"),
    "an event is dropped": (DROP.format(9, "rate_limited"), "dropped without need: event 9"),
    "an event is refused and answered": (DROP.format(1, "rate_limited"), "('telegram', '1') was dropped, and also"),
    "an event is dropped without a reason": (DROP.format(1, ""), "is dropped without a reason"),
    "a message is dead for no reason": ("UPDATE messages SET last_error = NULL", "is dead without a reason"),
    "a turn begins beside another": (AGAIN.format(f"{FIRST_START}; {AGAIN.format(FIRST_START)}"), "while ["),
    "a turn begins behind another": (AGAIN.format(FIRST_START), "took [1] after 3"),
    "a turn completes what it lost": (AGAIN.format(FIRST_DONE), "a turn of session 1 completed telegram_"),
    "a turn fails what it lost": (AGAIN.format(FIRST_RETRY), "a turn of session 1 gave telegram_"),
    "a message is not in the history": ("DELETE FROM agent_messages WHERE content = 'two'", "had its turn, and is not"),
    "an answer is not in the history": ("DELETE FROM agent_messages WHERE content = 're two'", "gave 1 answers, and 0"),
    "an attempt does not count": (AGAIN.format(f"{FIRST_RETRY}; {AGAIN.format(FIRST_RETRY)}"), "has failed 3 times"),
}


@pytest.mark.parametrize(("sql", "problem"), BREAKS.values(), ids=BREAKS)
def test_what_is_broken_is_told(conn, world, sql, problem):
    conn.execute(sql)
    assert problem in "\n".join(everything(conn))


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
