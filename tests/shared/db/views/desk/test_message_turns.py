"""The story of a message says when its turns began, and what they did."""

from shared.db.access import tool_calls
from shared.db.engine.connection import rows, transaction
from shared.db.spending import usage
from shared.db.spending.usage import Tokens, TurnName
from shared.db.views.desk import message_turns
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import NOW, begin_epoch, put, take

RETRY = RetryPolicy(5, 1000, 1000, 0.0)


MANY = """
    WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers LIMIT :count)
    INSERT INTO events (id, type, created_at)
    SELECT (SELECT max(id) FROM events WHERE created_at <= :after) + number, 'agent_paused', :after
      FROM numbers
"""


def fail(conn, claim, now_ms):
    with transaction(conn):
        turns.fail(conn, claim, Failure("no answer", retryable=True), RETRY, now_ms=now_ms)


def settle(conn, claim, now_ms):
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("an answer", claim.asked[0])], None, now_ms=now_ms)


def begun(conn, row):
    return [(each["at"] - NOW, each["attempt"], each["messages"]) for each in message_turns.read(conn, row)["begun"]]


def test_each_turn_over_a_message_has_its_begin(conn):
    """Also where another message stood first in it. A turn of another time or conversation is not told."""
    first, second, other = put(conn), put(conn), put(conn, chat="200")
    settle(conn, take(conn, now_ms=NOW + 1000), NOW + 3000)
    failed = put(conn, now_ms=NOW + 4000)
    fail(conn, take(conn, now_ms=NOW + 5000), NOW + 6000)
    take(conn, now_ms=NOW + 9000)
    assert begun(conn, first) == begun(conn, second) == [(1000, 1, 2)]
    assert begun(conn, failed) == [(5000, 1, 1), (9000, 2, 1)], "the second one runs"
    assert begun(conn, other) == []
    assert begun(conn, 99) == [], "a message that is gone"


def test_of_very_many_events_the_last_before_the_end_are_read(conn):
    row = put(conn)
    fail(conn, take(conn, now_ms=NOW + 1000), NOW + 2000)
    settle(conn, take(conn, now_ms=NOW + 9000), NOW + 9500)
    assert begun(conn, row) == [(1000, 1, 1), (9000, 2, 1)]
    with transaction(conn):
        rows(conn, "UPDATE events SET id = id + :far WHERE created_at >= :at", {
            "far": message_turns.LOOKED_AT, "at": NOW + 9000,
        })  # fmt: skip
        for at_ms in (NOW + 5000, NOW + 20_000):  # before the last turn, and after the end
            rows(conn, MANY, {"after": at_ms, "count": message_turns.LOOKED_AT})
    assert begun(conn, row) == [(9000, 2, 1)]


def test_a_restore_hides_no_turn(conn):
    """The ids that it leaves out are no events that have to be read."""
    row = put(conn)
    fail(conn, take(conn, now_ms=NOW + 1000), NOW + 2000)
    begin_epoch(conn, now_ms=NOW + 5000)
    take(conn, now_ms=NOW + 9000)
    assert begun(conn, row) == [(1000, 1, 1), (9000, 2, 1)]


def test_what_a_turn_did_with_its_tools_is_told(conn):
    row = put(conn, given_id="wish_1")
    claim = take(conn, now_ms=NOW + 1000)
    session = rows(conn, "SELECT session_id FROM sessions WHERE id = ?", (claim.session_id,))[0][0]
    with transaction(conn):
        usage.add(
            conn, TurnName("turn_a", "assistant", session, ("wish_1",)), "model-1", "key", Tokens(1, 1, 0), 7,
            now_ms=NOW + 1500,
        )  # fmt: skip
        for number, (turn, tool) in enumerate((("turn_a", "send_message"), ("turn_a", "ask"), ("turn_b", "react"))):
            tool_calls.put(conn, turn, f"k{number}", tool, "a secret", now_ms=NOW + 2000 + number)
    assert message_turns.read(conn, row)["calls"] == [
        {"at": NOW + 2000, "tool": "send_message"},
        {"at": NOW + 2001, "tool": "ask"},
    ]
