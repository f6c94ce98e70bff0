"""A late copy is known by its key, also when its message is pruned or deleted by hand."""

import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import event_keys, messages
from shared.db.queue.event_keys import KEPT_MS
from shared.queue import session_reset
from tests.support import NOW, column, make_agent, make_session, plan, put

LATER = NOW + 60_000


def finish(conn, row_id, *, now_ms=NOW):
    with transaction(conn):
        rows(
            conn,
            "UPDATE messages SET status = 'completed', updated_at = :now WHERE id = :id",
            {"id": row_id, "now": now_ms},
        )


def prune(conn, *, now_ms=LATER):
    """As the sweep does with a retention of nothing."""
    with transaction(conn):
        return messages.prune(
            conn, after_id=0, older_than_ms=now_ms, limit=100, forgotten_ms=now_ms - event_keys.KEPT_MS
        )


def pruned(conn, **fields):
    """A message is stored, answered and pruned; another one is the newest row, which stays."""
    finish(conn, put(conn, **fields))
    put(conn)
    assert prune(conn)[0] == 1


def test_a_copy_of_a_pruned_message_is_known(conn):
    pruned(conn, event_key="730")
    assert put(conn, event_key="730", now_ms=LATER) is None
    assert put(conn, event_key="731", now_ms=LATER) is not None


def test_an_agent_that_missed_the_event_still_gets_it(conn):
    make_agent(conn, "second")
    pruned(conn, event_key="730")
    assert put(conn, event_key="730", agent="second", now_ms=LATER) is not None
    assert put(conn, event_key="730", agent="second", now_ms=LATER) is None


def test_the_event_counts_as_known_for_the_limits_of_its_sender(conn):
    pruned(conn, event_key="730")
    assert messages.has_event(conn, "telegram", "730")
    assert not messages.has_event(conn, "discord", "730")


def test_an_id_that_a_caller_gave_is_refused_after_its_message_is_pruned(conn):
    """Also one in the form of ours: TinyAGI's clients draw such ids themselves."""
    pruned(conn, given_id="telegram_ab12cd34")
    with pytest.raises(apsw.ConstraintError, match="another message has the id 'telegram_ab12cd34'"):
        put(conn, given_id="telegram_ab12cd34")


def test_nothing_is_kept_of_a_message_that_no_copy_can_follow(conn):
    pruned(conn)
    assert column(conn, "SELECT count(*) FROM event_keys") == [0]


def test_a_copy_of_a_message_that_was_deleted_by_hand_is_known(conn):
    row_id = put(conn, event_key="730")
    put(conn)
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'dead' WHERE id = :id", {"id": row_id})
        messages.delete(conn, row_id, now_ms=LATER)
    assert put(conn, event_key="730", now_ms=LATER) is None


def test_a_key_is_kept_for_72_hours_after_its_message_came(conn):
    pruned(conn, event_key="730")
    for now_ms, left in ((NOW + KEPT_MS - 1, 1), (NOW + KEPT_MS, 0)):
        with transaction(conn):
            event_keys.prune(conn, older_than_ms=now_ms - KEPT_MS, limit=100)
        assert column(conn, "SELECT count(*) FROM event_keys") == [left]
    assert put(conn, event_key="730") is not None


def test_a_message_that_stayed_longer_than_that_leaves_no_key(conn):
    finish(conn, put(conn, event_key="730"), now_ms=NOW + KEPT_MS)
    put(conn)
    assert prune(conn, now_ms=NOW + KEPT_MS + 1)[0] == 1
    assert column(conn, "SELECT count(*) FROM event_keys") == [0]


def test_keys_are_forgotten_in_bounded_steps_and_found_by_an_index(conn):
    with transaction(conn):
        for number in range(5):
            assert event_keys.add(conn, "telegram", str(number), now_ms=NOW)
            assert not event_keys.add(conn, "telegram", str(number), now_ms=NOW)
    with transaction(conn):
        assert [event_keys.prune(conn, older_than_ms=NOW, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    lines = plan(conn, event_keys.PRUNE, cutoff=NOW, limit=2)
    assert [line for line in lines if line.startswith("SCAN")] == []


def test_a_replayed_message_has_an_id_of_its_channel_where_a_caller_gave_the_first(conn):
    _, session = make_session(conn)
    first = put(conn, given_id="order-7")
    finish(conn, first)
    with transaction(conn):
        session_reset.replay(conn, session, [first], now_ms=LATER)
    (given, drawn) = column(conn, "SELECT message_id FROM messages ORDER BY id")
    assert (given, drawn.startswith("telegram_")) == ("order-7", True)
