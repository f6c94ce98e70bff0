import apsw
import pytest

from shared.db.access import tool_calls
from shared.db.engine.connection import transaction
from shared.db.queue import spoken
from tests.support import NOW, column, plan


def put(conn, key, *, turn="turn_a", now_ms=NOW):
    with transaction(conn):
        tool_calls.put(conn, turn, key, "send_message", f"answer to {key}", now_ms=now_ms)


def test_a_call_is_found_in_its_own_turn(conn):
    put(conn, "k1")
    assert tool_calls.find(conn, "turn_a", "k1") == "answer to k1"
    assert tool_calls.find(conn, "turn_b", "k1") is None
    assert tool_calls.find(conn, "turn_a", "k2") is None


def test_a_turn_has_a_call_once(conn):
    put(conn, "k1")
    with pytest.raises(apsw.ConstraintError):
        put(conn, "k1")


def test_calls_of_turns_that_ended_long_ago_are_forgotten_oldest_first(conn):
    for age in range(4):
        put(conn, f"k{age}", now_ms=NOW - age)
    with transaction(conn):
        assert tool_calls.prune(conn, older_than_ms=NOW, limit=2) == 2
    assert column(conn, "SELECT key FROM tool_calls ORDER BY key") == ["k0", "k1"]


def test_a_call_is_known_as_long_as_what_its_turn_said(conn):
    put(conn, "k1")
    with transaction(conn):
        spoken.add(conn, "turn_a", "k1", "turn_a", None, now_ms=NOW)
        assert tool_calls.prune(conn, older_than_ms=NOW + 1, limit=2) == 0
        spoken.prune(conn, older_than_ms=NOW + 1, limit=2)
        assert tool_calls.prune(conn, older_than_ms=NOW + 1, limit=2) == 1


def test_pruning_reads_only_what_is_old(conn):
    lines = plan(conn, tool_calls.PRUNE, older=NOW, limit=10)
    assert any("tool_calls_by_age (created_at<?)" in line for line in lines)
    assert not any(line.startswith("SCAN tool_calls") for line in lines)
