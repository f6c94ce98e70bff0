import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims
from shared.queue import replies, spoken, stops
from shared.queue.stops import Stopped
from tests.support import NOW, column, make_session, plan, put, take


def stop(conn, sender="5", *, is_admin=False):
    _, session = make_session(conn)
    with transaction(conn):
        return stops.stop(
            conn, "assistant", session, channel="telegram", sender_id=sender, is_admin=is_admin, now_ms=NOW + 5
        )


def states(conn):
    return rows(conn, "SELECT message, status, last_error FROM messages ORDER BY id")


def test_what_waits_is_stopped_before_what_runs(conn):
    put(conn, "runs")
    take(conn)
    put(conn, "waits")
    put(conn, "waits too")
    assert stop(conn) == Stopped(2, 1)
    assert [status for _, status, _ in states(conn)] == ["cancelled"] * 3
    assert column(conn, "SELECT e.message_id = m.message_id FROM events e JOIN messages m ON m.message = 'runs'"
                        " WHERE e.type = 'message_cancelled' ORDER BY e.id") == [0, 0, 1]  # fmt: skip
    assert {reason for *_, reason in states(conn)} == {stops.BY_SENDER}
    assert stop(conn) == Stopped()


def test_what_others_wrote_goes_on(conn):
    put(conn, "mine")
    put(conn, "theirs", sender_id="6")
    take(conn)
    put(conn, "theirs too", sender_id="6")
    assert stop(conn) == Stopped(0, 1)
    assert [(text, status) for text, status, _ in states(conn)] == [
        ("mine", "cancelled"),
        ("theirs", "pending"),
        ("theirs too", "pending"),
    ]


@pytest.mark.parametrize(("is_admin", "found"), [(False, Stopped()), (True, Stopped(0, 1))])
def test_only_an_admin_stops_a_turn_that_runs_for_others_alone(conn, is_admin, found):
    put(conn, "theirs", sender_id="6")
    take(conn)
    assert stop(conn, is_admin=is_admin) == found


def test_the_same_id_on_another_channel_is_another_person(conn):
    put(conn, "mine", sender_id="5")
    with transaction(conn):
        rows(conn, "UPDATE messages SET channel = 'discord'")
    assert stop(conn) == Stopped()


def test_what_waits_for_its_retry_is_stopped_and_what_is_planned_is_not(conn):
    put(conn, "planned", process_after=NOW + 60_000)
    put(conn, "retried")
    with transaction(conn):
        rows(
            conn,
            "UPDATE messages SET failure = 'error', process_after = :at WHERE message = 'retried'",
            {"at": NOW + 9},
        )
    assert stop(conn) == Stopped(1, 0)
    assert [(text, status) for text, status, _ in states(conn)] == [("planned", "pending"), ("retried", "cancelled")]


def test_a_turn_that_has_spoken_ends_with_all_its_messages(conn):
    put(conn, "mine")
    put(conn, "theirs", sender_id="6")
    claim = take(conn)
    with transaction(conn):
        new = replies.response(claim.batch[0], "said", agent="assistant", session_id=claim.session_id)
        spoken.say(conn, claim, new, key="call", now_ms=NOW)
    assert stop(conn) == Stopped(0, 1)
    assert [(text, status) for text, status, _ in states(conn)] == [("mine", "cancelled"), ("theirs", "dead")]


def test_a_stopped_turn_takes_along_what_waits_of_its_people(conn):
    put(conn, "mine")
    claim = take(conn)
    put(conn, "waits")
    put(conn, "theirs", sender_id="6")
    with transaction(conn):
        held = claims.holding(conn, claim.batch[0].id)
        assert stops.stop_turn(conn, held, reason="why", now_ms=NOW + 5) == Stopped(1, 1)
    assert states(conn) == [
        ("mine", "cancelled", "why"),
        ("waits", "cancelled", "why"),
        ("theirs", "pending", None),
    ]


def test_what_no_wiring_has_is_found_without_reading_the_backlogs(conn):
    """40,000 messages may wait for other agents, and ``ingest`` holds the write lock meanwhile."""
    lines = plan(conn, stops.WITHOUT_WIRING, chat=1, channel="telegram", sender="5", thread=None)
    assert any("messages_open (agent=? AND session_id=?" in line for line in lines)
    assert any("sessions_one_active (agent=? AND <expr>=?" in line for line in lines)
    assert not any(line.startswith(("SCAN m", "SCAN s")) for line in lines)
