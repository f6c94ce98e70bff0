"""What the rows say of time."""

import apsw

from emulator.storage import due
from shared.db.access import approvals
from shared.db.access.approvals import NewApproval
from shared.db.engine.connection import transaction
from shared.db.platforms import channel_outages
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.queue.messages import NewMessage
from shared.db.queue.schedules.message_series import MESSAGES
from shared.queue import series
from shared.queue.series import When
from tests.support import NOW, answer, make_session, put, take

HOUR = 3_600_000


def test_an_empty_database_waits_for_nothing(conn: apsw.Connection) -> None:
    assert due.is_idle(conn, now_ms=NOW)
    assert due.is_planned(conn)
    assert (due.next_due(conn, now_ms=NOW), due.next_deadline(conn, now_ms=NOW), due.newest(conn)) == (None, None, None)


def test_the_soonest_of_messages_answers_probes_and_deadlines_is_next(conn: apsw.Connection) -> None:
    put(conn, process_after=NOW + 4 * HOUR)
    assert due.next_due(conn, now_ms=NOW) == NOW + 4 * HOUR
    answer(conn, deliver_after=NOW + 3 * HOUR)
    assert due.next_due(conn, now_ms=NOW) == NOW + 3 * HOUR
    with transaction(conn):
        outage = ChannelOutage("telegram", NOW, "unreachable", "no answer", NOW + 2 * HOUR)
        channel_outages.begin(conn, outage, now_ms=NOW)
    assert due.next_due(conn, now_ms=NOW) == NOW + 2 * HOUR
    with transaction(conn):
        asked = NewApproval("tool", {}, subject="x", title="May it?", options=("Yes", "No"))
        approvals.request(conn, asked, expires_at=NOW + HOUR, now_ms=NOW)
    assert due.next_due(conn, now_ms=NOW) == due.next_deadline(conn, now_ms=NOW) == NOW + HOUR
    assert due.next_due(conn, now_ms=NOW + HOUR) == NOW + 2 * HOUR, "what is due now is not next"
    assert due.newest(conn) == NOW


def test_what_is_due_or_under_way_is_left_to_do(conn: apsw.Connection) -> None:
    put(conn, process_after=NOW + HOUR)
    assert due.is_idle(conn, now_ms=NOW)
    assert not due.is_idle(conn, now_ms=NOW + HOUR)
    take(conn, now_ms=NOW + HOUR)
    assert not due.is_idle(conn, now_ms=NOW)


def test_an_answer_behind_an_outage_waits_for_the_next_question_to_the_platform(conn: apsw.Connection) -> None:
    answer(conn)
    assert not due.is_idle(conn, now_ms=NOW)
    with transaction(conn):
        outage = ChannelOutage("telegram", NOW, "unreachable", "no answer", NOW + HOUR)
        channel_outages.begin(conn, outage, now_ms=NOW)
    assert due.is_idle(conn, now_ms=NOW)
    assert not due.is_idle(conn, now_ms=NOW + HOUR)


def test_a_schedule_whose_run_has_ended_is_not_planned_before_its_next_run_is(conn: apsw.Connection) -> None:
    chat, session = make_session(conn)
    with transaction(conn):
        when = When(recurrence="0 * * * *", timezone="UTC")
        new = NewMessage("task", "telegram", chat, "100", sender="Ana", message="report", agent="assistant")
        series.plan_message(conn, new._replace(session_id=session, kind="task"), when, now_ms=NOW)
    conn.execute("UPDATE messages SET status = 'completed'")
    assert MESSAGES.finished(conn, limit=1)
    assert not due.is_planned(conn)
    with transaction(conn):
        series.advance_messages(conn, now_ms=NOW)
    assert due.is_planned(conn)
