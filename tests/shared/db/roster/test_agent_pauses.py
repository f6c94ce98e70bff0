import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, ready_sessions
from shared.db.roster import agent_pauses
from tests.support import NOW, column, put, take

MINUTE, HOUR = 60_000, 3_600_000


def pause(conn, code="auth", *, agent="assistant", until=None, now_ms=NOW):
    with transaction(conn):
        return agent_pauses.pause(conn, agent, code, "the login has expired", until=until, now_ms=now_ms)


def call(conn, verb, *arguments, now_ms=NOW):
    with transaction(conn):
        return getattr(agent_pauses, verb)(conn, *arguments, now_ms=now_ms)


def told(conn, place):
    with transaction(conn):
        return agent_pauses.mark_told(conn, "assistant", place)


def test_a_paused_agent_takes_nothing_and_its_messages_wait_in_order(conn):
    put(conn, "one")
    put(conn, "two")
    assert pause(conn)
    assert ready_sessions.find(conn, now_ms=NOW) == []
    assert take(conn) is None
    assert call(conn, "resume", "assistant")
    assert [each.message for each in take(conn).batch] == ["one", "two"]
    assert column(conn, "SELECT type FROM events WHERE type LIKE 'agent_%'") == ["agent_paused", "agent_resumed"]


def test_a_turn_that_runs_keeps_its_lease_and_can_be_rescued(conn):
    put(conn, "one")
    claim = take(conn)
    pause(conn)
    assert [each.token for each, _ in claims.running(conn)] == [claim.token]


def test_a_second_failure_changes_nothing_and_an_unknown_agent_is_not_paused(conn):
    assert [pause(conn), pause(conn, "quota"), pause(conn, agent="nobody")] == [True, False, False]
    assert agent_pauses.paused(conn)["assistant"].code == "auth"


def test_only_a_pause_without_an_end_is_checked(conn):
    pause(conn)
    assert agent_pauses.find(conn, "assistant").check_at == NOW + MINUTE
    call(conn, "resume", "assistant")
    pause(conn, "quota", until=NOW + HOUR)
    assert agent_pauses.find(conn, "assistant").check_at is None


def test_a_failure_on_trial_is_the_same_pause_told_to_nobody_again_and_checked_later_each_time(conn):
    pause(conn)
    assert told(conn, "chat:1")
    waits = []
    for round_ in range(1, 9):
        at = NOW + round_ * 10 * HOUR
        assert call(conn, "try_again", "assistant", now_ms=at)
        assert pause(conn, now_ms=at)
        waits.append((agent_pauses.find(conn, "assistant").check_at - at) // MINUTE)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert not told(conn, "chat:1")
    assert agent_pauses.find(conn, "assistant").since == NOW


def test_a_quota_that_is_used_up_again_is_so_since_then_and_told_to_nobody_again(conn):
    """Its first pause ended when it said. A person read that the agent had been paused all the time since."""
    pause(conn, "quota", until=NOW + 5 * HOUR)
    assert told(conn, "chat:1")
    call(conn, "try_again", "assistant", now_ms=NOW + 5 * HOUR)
    pause(conn, "quota", until=NOW + 10 * HOUR, now_ms=NOW + 5 * HOUR + 50 * MINUTE)
    found = agent_pauses.find(conn, "assistant")
    assert (found.since, found.until) == (NOW + 5 * HOUR + 50 * MINUTE, NOW + 10 * HOUR)
    assert not told(conn, "chat:1")


def test_another_failure_on_trial_is_told_anew(conn):
    pause(conn)
    told(conn, "chat:1")
    call(conn, "try_again", "assistant")
    pause(conn, "quota", now_ms=NOW + 5)
    assert told(conn, "chat:1")
    assert agent_pauses.find(conn, "assistant").since == NOW + 5


def test_a_trial_is_forgotten_after_an_hour_of_work(conn):
    pause(conn)
    call(conn, "try_again", "assistant")
    assert call(conn, "forget_trials", now_ms=NOW + HOUR - 1) == 0
    assert call(conn, "forget_trials", now_ms=NOW + HOUR) == 1


def test_an_operators_pause_ends_by_an_act_only(conn):
    pause(conn)
    assert call(conn, "pause_by_hand", "assistant", "holidays")
    assert not call(conn, "pause_by_hand", "assistant", "again")
    assert not call(conn, "resume_mended", "assistant")
    found = agent_pauses.find(conn, "assistant")
    assert (found.code, found.reason, found.check_at) == ("by_hand", "holidays", None)
    assert call(conn, "resume", "assistant")


def test_those_that_wait_for_one_thing_go_on_together(conn):
    pause(conn, "budget")
    assert call(conn, "try_all", "quota") == []
    assert call(conn, "try_all", "budget") == ["assistant"]
    assert agent_pauses.paused(conn) == {}


def test_a_state_or_reason_of_another_word_is_refused(conn):
    pause(conn)
    for wrong in ("state = 'asleep'", "code = 'bored'", "state = 'trying'"):
        with pytest.raises(apsw.ConstraintError):
            rows(conn, f"UPDATE agent_pauses SET {wrong}")


def test_a_start_of_dispatch_tries_what_has_no_end_of_its_own(conn):
    pause(conn)
    call(conn, "try_at_start")
    assert agent_pauses.paused(conn) == {}
    pause(conn, "quota", until=NOW + HOUR)
    call(conn, "try_at_start")
    call(conn, "pause_by_hand", "assistant", "holidays")
    call(conn, "try_at_start")
    assert list(agent_pauses.paused(conn)) == ["assistant"]
