"""Waits, buckets and refusals, as rows."""

from shared.core.call_scopes import LimitHold, Scope
from shared.db.engine.connection import rows
from shared.db.platforms import call_holds

NOW = 1_700_000_000_000


def test_waits_that_are_long_over_are_pruned_with_the_refusals_before_the_window(conn):
    call_holds.hold(conn, "telegram", LimitHold(Scope("bot"), 1_000, "why"), now_ms=NOW)
    call_holds.hold(conn, "telegram", LimitHold(Scope("chat", "5"), 900_000, "why"), now_ms=NOW)
    call_holds.count_refusal(conn, "discord", now_ms=NOW)
    later = NOW + 700_000
    call_holds.count_refusal(conn, "discord", now_ms=later)
    assert call_holds.prune(conn, now_ms=later, limit=10) == 1
    assert [hold.scope for hold in call_holds.every(conn, now_ms=later)] == [Scope("chat", "5")]
    assert rows(conn, "SELECT minute FROM refused_calls") == [(later // 60_000,)]


def test_the_refusals_of_a_window_leave_room_again_with_the_oldest_minutes():
    limit = call_holds.SAFE_REFUSALS
    assert call_holds.room_again_at([(5, limit - 1)]) is None
    assert call_holds.room_again_at([(5, 1), (6, limit - 1)]) == 15 * 60_000
    assert call_holds.room_again_at([(5, 1), (6, limit)]) == 16 * 60_000


def test_a_shorter_wait_never_shortens_a_longer_one(conn):
    for wait_ms in (50_000, 2_000):
        call_holds.hold(conn, "telegram", LimitHold(Scope("chat", "5"), wait_ms, "why"), now_ms=NOW)
    assert [hold.not_before for hold in call_holds.active(conn, "telegram", now_ms=NOW)] == [NOW + 50_000]


def test_a_wait_from_a_clock_that_was_ahead_holds_nothing(conn):
    a_year_ahead = NOW + 365 * 86_400_000
    call_holds.hold(conn, "telegram", LimitHold(Scope("bot"), 5_000, "why"), now_ms=a_year_ahead)
    assert call_holds.active(conn, "telegram", now_ms=NOW) == []
    assert call_holds.every(conn, now_ms=NOW) == []
    call_holds.hold(conn, "telegram", LimitHold(Scope("bot"), 2_000, "why"), now_ms=NOW)
    assert [hold.not_before for hold in call_holds.active(conn, "telegram", now_ms=NOW)] == [NOW + 2_000]


def test_refusals_of_a_clock_that_was_ahead_are_not_counted(conn):
    rows(conn, "INSERT INTO refused_calls VALUES ('discord', ?, 5000)", ((NOW + 86_400_000) // 60_000,))
    assert call_holds.count_refusal(conn, "discord", now_ms=NOW) is None
