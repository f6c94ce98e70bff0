"""What is planned, as messages and as responses: the same verbs, the same rules."""

import json

import apsw
import pytest

from shared.core.errors import ClaimLost, ConfigInvalid, NotFound, PermanentError, RetryableError, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, fetched_responses, messages, responses
from shared.db.queue.messages import NewMessage
from shared.db.queue.responses import NewResponse
from shared.db.queue.schedules import schedule_runs
from shared.db.queue.schedules.message_series import MESSAGES
from shared.db.queue.schedules.response_series import RESPONSES
from shared.db.queue.schedules.series import ALREADY_LIVE, Next
from shared.queue import deliveries, series, turns
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.series import Change, When
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import LEASE, NOW, answer, column, dump, make_session, plan, put, row, take

HOUR = 3_600_000
DAY = 24 * HOUR
NINE = NOW + HOUR  # 09:00 UTC
DAILY = When(recurrence="0 9 * * *", timezone="UTC", label="report")
ONCE = When(due_ms=NINE, label="reminder")


class Messages:
    """A planned message, and what a turn does to it."""

    table, series, due = "messages", MESSAGES, "process_after"

    def __init__(self, conn):
        self.conn = conn

    def plan(self, when, now_ms=NOW, text="write the report"):
        chat, session = make_session(self.conn)
        new = NewMessage("task", "telegram", chat, "100", sender="Ana", message=text, agent="assistant")
        with transaction(self.conn):
            new = new._replace(session_id=session, kind="task")
            return series.plan_message(self.conn, new, when, now_ms=now_ms)

    def begin(self, now_ms):
        session = make_session(self.conn)[1]
        with transaction(self.conn):
            return claims.claim(
                self.conn,
                *("assistant", session),
                token="turn_a",
                now_ms=now_ms,
                lease_ms=LEASE,
                limit=1,
                pass_over=series.pass_over_messages,
            )

    def text_of(self, begun):
        return begun.batch[0].message

    def finish(self, begun, now_ms):
        with transaction(self.conn):
            turns.settle(self.conn, begun, [TurnReply("done", begun.asked[0])], None, now_ms=now_ms)

    def fail(self, begun, now_ms, *, for_good=False):
        policy = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
        with transaction(self.conn):
            turns.fail(self.conn, begun, Failure("broken", retryable=not for_good), policy, now_ms=now_ms)


class Responses:
    """A planned response, and what its delivery does to it."""

    table, series, due = "responses", RESPONSES, "deliver_after"

    def __init__(self, conn):
        self.conn = conn

    def plan(self, when, now_ms=NOW, text="write the report"):
        chat, _ = make_session(self.conn)
        new = NewResponse("proactive_00000001", "telegram", "Ana", text, chat_id=chat, platform_id="100")
        with transaction(self.conn):
            return series.plan_response(self.conn, new, when, now_ms=now_ms)

    def begin(self, now_ms):
        for head in responses.heads(self.conn, "telegram", now_ms=now_ms):
            with transaction(self.conn):
                sending = deliveries.claim(self.conn, head, token="send_a", now_ms=now_ms, lease_ms=LEASE)
                return sending and sending.response
        return None

    def text_of(self, begun):
        return begun.message

    def finish(self, begun, now_ms):
        with transaction(self.conn):
            deliveries.acknowledge(self.conn, begun, ("m1",), now_ms=now_ms)

    def fail(self, begun, now_ms, *, for_good=False):
        policy = DeliveryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
        error = PermanentError("broken") if for_good else RetryableError("broken")
        with transaction(self.conn):
            deliveries.fail(self.conn, begun, error, policy, now_ms=now_ms)


@pytest.fixture(params=[Messages, Responses], ids=["messages", "responses"])
def kind(request, conn):
    return request.param(conn)


def do(kind, verb, *args, now_ms=NOW):
    with transaction(kind.conn):
        return verb(kind.conn, *args, now_ms=now_ms)


def live(kind):
    """The rows that carry a series on, with the instants they are due at."""
    return rows(kind.conn, f"SELECT series_id, {kind.due} FROM {kind.table} WHERE recurrence IS NOT NULL")


def told(kind, type_):
    return [json.loads(data) for data in column(kind.conn, "SELECT data FROM events WHERE type = :type", type=type_)]


# -- making


def test_a_plan_is_due_at_the_first_instant_of_its_grid(kind):
    made = kind.plan(DAILY)
    assert (made.status, made.label, made.recurrence, made.timezone, made.settings.misfire) == (
        *("planned", "report", "0 9 * * *", "UTC", "coalesce"),
    )
    assert (made.scheduled_at, made.due_at) == (NINE, NINE)
    assert series.get(kind.conn, made.series_id) == made
    assert kind.begin(NINE - 1) is None
    assert kind.begin(NINE) is not None


def test_nothing_follows_a_one_time_plan(kind):
    made = kind.plan(ONCE)
    assert (made.recurrence, made.due_at) == (None, NINE)
    kind.finish(kind.begin(NINE), NINE)
    assert column(kind.conn, f"SELECT count(*) FROM {kind.table} WHERE series_id = :id", id=made.series_id) == [1]
    with pytest.raises(NotFound):
        series.get(kind.conn, made.series_id)


REFUSED = {
    "four fields": (When(recurrence="0 9 * *"), "five fields"),
    "seconds": (When(recurrence="0 0 9 * * *"), "five fields"),
    "an hour that does not exist": (When(recurrence="0 25 * * *"), "can't be used"),
    "a zone that does not exist": (When(recurrence="0 9 * * *", timezone="Mars/Olympus"), "Mars/Olympus"),
    "a zone that does not exist, once": (When(due_ms=NINE, timezone="Mars/Olympus"), "Mars/Olympus"),
    "no time at all": (When(), "the schedule has no time"),
}


@pytest.mark.parametrize(("when", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_plan_that_could_never_run_is_refused(kind, when, sentence):
    with pytest.raises(ConfigInvalid, match=sentence):
        kind.plan(when)
    assert column(kind.conn, f"SELECT count(*) FROM {kind.table}") == [0]


# -- one follows the other


def test_an_occurrence_hands_over_once(kind):
    kind.plan(DAILY)
    begun = kind.begin(NINE)
    rows(kind.conn, "DROP TABLE schedule_runs")
    with transaction(kind.conn):
        ended = {"messages": "status = 'completed'", "responses": "status = 'acked', acked_at = 1"}[kind.table]
        rows(kind.conn, f"UPDATE {kind.table} SET {ended}, claimed_by = NULL, lease = NULL WHERE id = 1")
    (finished,) = kind.series.finished(kind.conn, limit=9)
    following = Next(NINE + DAY, finished.recurrence, finished.timezone, finished.settings)
    with transaction(kind.conn):
        kind.series.hand_on(kind.conn, finished.id, following, now_ms=NINE)
    successor = row(kind.conn, kind.table)
    assert [successor[name] for name in ("status", kind.due, "scheduled_at", "retry_count", "message", "agent")] == [
        *("pending", NINE + DAY, NINE + DAY, 0, kind.text_of(begun), row(kind.conn, kind.table, 1)["agent"])
    ]
    assert kind.series.finished(kind.conn, limit=9) == []
    before = dump(kind.conn)
    with pytest.raises(ClaimLost), transaction(kind.conn):
        kind.series.hand_on(kind.conn, finished.id, following, now_ms=NINE)
    assert dump(kind.conn) == before


@pytest.mark.parametrize("for_good", [False, True], ids=["in the end", "at once"])
def test_a_dead_occurrence_does_not_end_its_series_and_its_retries_do_not_shift_the_grid(kind, for_good):
    made = kind.plan(DAILY)
    now = NINE + 17_000
    while (begun := kind.begin(now)) is not None:
        kind.fail(begun, now, for_good=for_good)
        assert len(live(kind)) == 1
        now += 10 * 60_000  # longer than any backoff
        if column(kind.conn, f"SELECT status FROM {kind.table} WHERE id = 1") == ["dead"]:
            break
    assert live(kind) == [(made.series_id, NINE + DAY)]


# -- when it was due, and when it was begun


def runs(conn):
    return rows(conn, "SELECT series_id, message_id, due_at, started_at FROM schedule_runs ORDER BY id")


@pytest.mark.parametrize("when", [DAILY, ONCE], ids=["daily", "once"])
def test_each_occurrence_is_recorded_once_with_the_instants_of_its_due_and_of_its_first_try(kind, when):
    made = kind.plan(when)
    kind.fail(kind.begin(NINE + 17), NINE + 18)
    kind.finish(kind.begin(NINE + HOUR), NINE + HOUR)
    expected = [(made.series_id, made.message_id, NINE, NINE + 17)]
    assert runs(kind.conn) == expected
    if when is DAILY:
        following = series.get(kind.conn, made.series_id)
        kind.begin(NINE + DAY + 3)
        assert runs(kind.conn) == [
            *expected,
            (made.series_id, following.message_id, NINE + DAY, NINE + DAY + 3),
        ]


def test_a_run_keeps_the_grid_of_its_own_time_and_the_run_before_it(kind):
    made = kind.plan(DAILY)
    kind.finish(kind.begin(NINE), NINE + HOUR)
    kind.begin(NINE + DAY)
    found = rows(kind.conn, "SELECT recurrence, timezone, made_at, previous_due_at FROM schedule_runs ORDER BY id")
    assert found == [(made.recurrence, "UTC", NOW, None), (made.recurrence, "UTC", NINE + HOUR, NINE)]


def test_a_run_that_was_begun_before_has_its_own_instant_as_the_one_before(kind):
    kind.plan(DAILY)
    known = "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at) VALUES (:series, :name, :due, 1)"
    for name, due in (("other", NINE), ("later", NINE + DAY)):
        rows(kind.conn, known, {"series": live(kind)[0][0], "name": name, "due": due})
    kind.begin(NINE)
    assert column(kind.conn, "SELECT previous_due_at FROM schedule_runs ORDER BY id DESC LIMIT 1") == [NINE]


def test_an_unplanned_message_leaves_no_run(conn):
    put(conn)
    assert take(conn) is not None
    assert Responses(conn).begin(NOW) is None
    answer(conn)
    assert Responses(conn).begin(NOW) is not None
    assert runs(conn) == []


def test_a_rolled_back_claim_leaves_no_run(kind):
    kind.plan(DAILY)
    with transaction(kind.conn):
        rows(kind.conn, "CREATE TRIGGER broken AFTER INSERT ON schedule_runs BEGIN SELECT raise(ABORT, 'x'); END")
    with pytest.raises(apsw.Error):
        kind.begin(NINE)
    assert column(kind.conn, f"SELECT status FROM {kind.table}") == ["pending"]


def test_a_fetched_response_begins_with_its_acknowledgement(conn):
    new = NewResponse("proactive_00000001", "api", "Ana", "report", platform_id="100")
    with transaction(conn):
        made = series.plan_response(conn, new, DAILY, now_ms=NOW)
        fetched_responses.ack(conn, made.id, adapters=(), now_ms=NINE + 5)
    assert runs(conn) == [(made.series_id, "proactive_00000001", NINE, NINE + 5)]


def test_runs_are_pruned_from_the_oldest_in_bounded_steps_and_the_newest_stays(conn):
    with transaction(conn):
        for number in range(6):
            insert = "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at) VALUES ('s', :name, 0, :at)"
            rows(conn, insert, {"name": f"task_{number}", "at": NOW + number})
    for expected in (2, 2, 0):
        with transaction(conn):
            assert schedule_runs.prune(conn, older_than_ms=NOW + 4, limit=2) == expected
    assert column(conn, "SELECT message_id FROM schedule_runs") == ["task_4", "task_5"]
    with transaction(conn):
        assert schedule_runs.prune(conn, older_than_ms=NOW + 99, limit=9) == 1


# -- changing


def test_a_changed_text_keeps_the_instant(kind):
    made = kind.plan(DAILY)
    after = do(kind, series.update, made.series_id, Change(message="shorter", label="brief"))
    assert (after.message, after.label, after.due_at, after.id) == ("shorter", "brief", NINE, made.id)
    begun = kind.begin(NINE)
    assert kind.text_of(begun) == "shorter"
    assert told(kind, "series_updated") == [{"series_id": made.series_id, "changed": ["message", "label"], "due": NINE}]


CHANGES = {
    "another hour": (Change(recurrence="30 10 * * *"), NINE + HOUR + HOUR // 2),
    "another zone": (Change(timezone="Europe/Zurich"), NINE + 23 * HOUR),  # 9:00 there was an hour ago... tomorrow's
    "an instant": (Change(due_ms=NINE + 5), NINE + 5),
    "an instant and another hour": (Change(due_ms=NINE + 5, recurrence="30 10 * * *"), NINE + 5),
    "the same hour": (Change(recurrence="0 9 * * *"), NINE),
    "the last one": (Change(recurrence=""), NINE),
}


@pytest.mark.parametrize(("change", "due"), CHANGES.values(), ids=CHANGES)
def test_a_changed_schedule_is_due_at_its_first_instant(kind, change, due):
    made = kind.plan(DAILY)
    assert do(kind, series.update, made.series_id, change, now_ms=NOW + 1).due_at == due
    assert column(kind.conn, f"SELECT count(*) FROM {kind.table}") == [1]


def test_nothing_follows_the_last_occurrence(kind):
    made = kind.plan(DAILY)
    do(kind, series.update, made.series_id, Change(recurrence=""))
    kind.finish(kind.begin(NINE), NINE)
    assert series.every(kind.conn) == []


def test_a_one_time_plan_can_become_recurring(kind):
    made = kind.plan(ONCE)
    after = do(kind, series.update, made.series_id, Change(recurrence="0 12 * * *", timezone="Europe/Zurich"))
    assert after.due_at == NOW + 3 * HOUR
    assert live(kind) == [(made.series_id, NOW + 3 * HOUR)]


def test_a_change_while_one_runs_makes_the_next_and_leaves_the_running_one(kind):
    made = kind.plan(DAILY)
    begun = kind.begin(NINE)
    before = row(kind.conn, kind.table, 1)
    after = do(kind, series.update, made.series_id, Change(message="shorter"), now_ms=NINE + 1000)
    assert (after.message, after.label, after.due_at, after.status) == ("shorter", "report", NINE + DAY, "planned")
    assert row(kind.conn, kind.table, 1) == {**before, "recurrence": None}
    kind.finish(begun, NINE + 2000)
    assert live(kind) == [(made.series_id, NINE + DAY)]
    assert kind.text_of(kind.begin(NINE + DAY)) == "shorter"


def test_a_new_schedule_while_one_runs_begins_with_the_next(kind):
    made = kind.plan(DAILY)
    begun = kind.begin(NINE)
    after = do(kind, series.update, made.series_id, Change(recurrence="*/10 * * * *"), now_ms=NINE + 1000)
    assert after.due_at == NINE + 600_000
    kind.fail(begun, NINE + 2000)
    assert live(kind) == [(made.series_id, NINE + 600_000)]


def test_an_occurrence_that_handed_over_early_is_retried_and_hands_over_no_more(kind):
    made = kind.plan(DAILY)
    begun = kind.begin(NINE)
    do(kind, series.update, made.series_id, Change(message="shorter"), now_ms=NINE + 1000)
    kind.fail(begun, NINE + 2000)
    again = kind.begin(NINE + HOUR)
    assert kind.text_of(again) == "write the report"
    kind.finish(again, NINE + HOUR)
    assert live(kind) == [(made.series_id, NINE + DAY)]
    assert column(kind.conn, f"SELECT count(*) FROM {kind.table} WHERE series_id IS NOT NULL") == [2]


WRONG = {
    "a text of nothing": (Change(message="  "), "the text is empty"),
    "four fields": (Change(recurrence="0 9 * *"), "five fields"),
    "a zone that does not exist": (Change(timezone="Mars/Olympus"), "Mars/Olympus"),
}


@pytest.mark.parametrize(("change", "sentence"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("runs", [False, True], ids=["waits", "runs"])
def test_a_change_that_could_never_run_is_refused_and_changes_nothing(kind, change, sentence, runs):
    made = kind.plan(DAILY)
    if runs:
        kind.begin(NINE)
    before = dump(kind.conn)
    with pytest.raises(ConfigInvalid, match=sentence):
        do(kind, series.update, made.series_id, change, now_ms=NINE)
    assert dump(kind.conn) == before


# -- pausing


def test_a_paused_series_does_not_run_and_resumes_at_the_next_instant_of_its_grid(kind):
    made = kind.plan(DAILY)
    assert do(kind, series.pause, made.series_id).status == "paused"
    assert kind.begin(NINE + 3 * DAY) is None
    after = do(kind, series.resume, made.series_id, now_ms=NINE + 3 * DAY + 5)
    assert (after.status, after.scheduled_at, after.due_at) == ("planned", NINE + 4 * DAY, NINE + 4 * DAY)
    assert kind.begin(NINE + 4 * DAY) is not None
    assert told(kind, "series_paused") == [{"series_id": made.series_id}]
    assert told(kind, "series_resumed") == [{"series_id": made.series_id, "due": NINE + 4 * DAY}]


@pytest.mark.parametrize(("now", "due"), [(NINE - 5, NINE), (NINE + DAY, NINE + DAY)], ids=["before", "after"])
def test_a_paused_one_time_plan_resumes_at_its_instant_or_at_once(kind, now, due):
    made = kind.plan(ONCE)
    do(kind, series.pause, made.series_id)
    assert do(kind, series.resume, made.series_id, now_ms=now).due_at == due


def test_a_pause_while_one_runs_makes_the_next_paused(kind):
    made = kind.plan(DAILY)
    begun = kind.begin(NINE)
    assert do(kind, series.pause, made.series_id, now_ms=NINE + 1000).status == "paused"
    kind.finish(begun, NINE + 2000)
    assert len(live(kind)) == 1
    assert kind.begin(NINE + 2 * DAY) is None
    assert do(kind, series.resume, made.series_id, now_ms=NINE + 3000).due_at == NINE + DAY
    assert kind.begin(NINE + DAY) is not None


def test_a_paused_series_can_be_changed_and_stays_paused(kind):
    made = kind.plan(DAILY)
    do(kind, series.pause, made.series_id)
    after = do(kind, series.update, made.series_id, Change(message="shorter", recurrence="0 12 * * *"))
    assert (after.status, after.message) == ("paused", "shorter")
    assert kind.begin(NINE + 3 * DAY) is None
    assert do(kind, series.resume, made.series_id).due_at == NOW + 4 * HOUR


def test_an_occurrence_that_waits_for_a_retry_is_paused_too_and_starts_again(kind):
    """Its failure must not hold back the session, or the chat, until the next day."""
    made = kind.plan(DAILY)
    kind.fail(kind.begin(NINE), NINE)
    do(kind, series.pause, made.series_id, now_ms=NINE + 1)
    assert kind.begin(NINE + HOUR) is None
    put(kind.conn, "another")
    answer(kind.conn, "another")
    assert kind.text_of(kind.begin(NINE + HOUR)) == "another"
    do(kind, series.resume, made.series_id, now_ms=NINE + HOUR)
    found = row(kind.conn, kind.table, made.id)
    assert (found["status"], found["retry_count"], found["last_error"], found[kind.due]) == (
        *("pending", 0, None, NINE + DAY),
    )


def test_a_half_sent_response_continues_unchanged(conn):
    kind = Responses(conn)
    made = kind.plan(DAILY)
    begun = kind.begin(NINE)
    with transaction(conn):
        responses.record_part(conn, begun, ("m1",), lease_until=NINE + LEASE)
    kind.fail(begun, NINE)
    do(kind, series.update, made.series_id, Change(message="shorter"), now_ms=NINE + 1000)
    do(kind, series.pause, made.series_id, now_ms=NINE + 1000)
    rest = kind.begin(NINE + HOUR)
    assert (rest.message, rest.parts) == ("write the report", ("m1",))
    assert rows(conn, "SELECT message, status, deliver_after FROM responses WHERE recurrence IS NOT NULL") == [
        ("shorter", "paused", NINE + DAY)
    ]


# -- cancelling


def test_a_cancelled_series_never_runs(kind):
    made = kind.plan(DAILY)
    do(kind, series.cancel, made.series_id)
    assert kind.begin(NINE) is None
    status, reason = rows(kind.conn, f"SELECT status, last_error FROM {kind.table}")[0]
    assert (status, reason) == ({"messages": "cancelled", "responses": "dead"}[kind.table], "the series was cancelled")
    assert do(kind, series.advance_messages, now_ms=NINE) + do(kind, series.advance_responses, now_ms=NINE) == 0
    assert told(kind, "series_ended") == [{"series_id": made.series_id, "reason": "cancelled"}]
    called_off = {"reason": "the series was cancelled"}
    assert told(kind, "message_cancelled") == ([called_off] if kind.table == "messages" else [])
    is_response = kind.table == "responses"
    assert told(kind, "response_dead") == ([{**called_off, "failure": "called_off"}] if is_response else [])


def test_nothing_follows_a_running_occurrence_of_a_cancelled_series(kind):
    made = kind.plan(DAILY)
    begun = kind.begin(NINE)
    do(kind, series.cancel, made.series_id, now_ms=NINE + 1)
    kind.finish(begun, NINE + 2)
    assert live(kind) == []
    assert series.every(kind.conn) == []


def test_nothing_follows_one_that_handed_over_before_the_cancellation(kind):
    made = kind.plan(DAILY)
    begun = kind.begin(NINE)
    do(kind, series.update, made.series_id, Change(message="shorter"), now_ms=NINE + 1)
    do(kind, series.cancel, made.series_id, now_ms=NINE + 2)
    kind.finish(begun, NINE + 3)
    assert live(kind) == []
    assert kind.begin(NINE + DAY) is None


@pytest.mark.parametrize("paused", [False, True], ids=["planned", "paused"])
def test_a_one_time_plan_is_cancelled(kind, paused):
    made = kind.plan(ONCE)
    if paused:
        do(kind, series.pause, made.series_id)
    do(kind, series.cancel, made.series_id)
    assert kind.begin(NINE) is None


# -- what can't be done

VERBS = {
    "update": (series.update, (Change(message="x"),)),
    "pause": (series.pause, ()),
    "resume": (series.resume, ()),
    "cancel": (series.cancel, ()),
}


@pytest.mark.parametrize(("verb", "more"), VERBS.values(), ids=VERBS)
def test_every_verb_needs_an_existing_plan(kind, verb, more):
    made = kind.plan(DAILY)
    do(kind, series.cancel, made.series_id)
    before = dump(kind.conn)
    for unknown in (made.series_id, "series_00000000", ""):
        with pytest.raises(NotFound):
            do(kind, verb, unknown, *more)
    assert dump(kind.conn) == before


@pytest.mark.parametrize("when", [DAILY, ONCE], ids=["daily", "once"])
def test_only_a_paused_series_resumes_and_only_another_is_paused(kind, when):
    made = kind.plan(when)
    with pytest.raises(WrongState, match="is not paused"):
        do(kind, series.resume, made.series_id)
    do(kind, series.pause, made.series_id)
    with pytest.raises(WrongState, match="is paused already"):
        do(kind, series.pause, made.series_id)


@pytest.mark.parametrize("name", ["update", "pause", "cancel"])
def test_the_only_occurrence_can_not_be_changed_once_it_runs(kind, name):
    made = kind.plan(ONCE)
    kind.begin(NINE)
    verb, more = VERBS[name]
    before = dump(kind.conn)
    with pytest.raises(WrongState, match="one occurrence, which is running"):
        do(kind, verb, made.series_id, *more, now_ms=NINE)
    assert dump(kind.conn) == before


# -- looking


def test_every_lists_each_series_once_soonest_first_one_time_plans_too(conn):
    tasks, reminders = Messages(conn), Responses(conn)
    daily = tasks.plan(DAILY)
    once = reminders.plan(ONCE._replace(due_ms=NINE - 5))
    later = reminders.plan(DAILY._replace(recurrence="0 12 * * *"))
    begun = tasks.begin(NINE)
    assert series.get(conn, daily.series_id).status == "running"
    do(tasks, series.update, daily.series_id, Change(message="shorter"), now_ms=NINE)
    found = [(each.series_id, each.kind, each.message) for each in series.every(conn)]
    assert found == [
        (once.series_id, "response", "write the report"),
        (later.series_id, "response", "write the report"),
        (daily.series_id, "message", "shorter"),
    ]
    assert begun is not None
    assert len(series.every(conn, limit=1)) == 2
    assert [each.series_id for each in series.every(conn, label="reminder")] == [once.series_id]
    assert series.every(conn, label="of nothing") == []


@pytest.mark.parametrize("name", ["ended", "planned", "every"])
def test_no_statement_reads_the_whole_table(kind, name):
    lines = plan(kind.conn, getattr(kind.series, name), series="s", label=None, limit=9)
    assert [line for line in lines if line.startswith("SCAN") and "USING" not in line] == []


def test_a_retried_series_that_has_not_handed_over_delays_no_settlement(conn):
    """The row that ended carries the recurrence until the next settlement, whoever's that is."""
    fields = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "series_1", "scheduled_at": NOW}
    ended = put(conn, chat="1", **fields)
    with transaction(conn):
        messages.cancel(conn, ended, reason="unwanted", now_ms=NOW)
    live = put(conn, chat="1", process_after=NOW + DAY, **fields)
    put(conn, "hello", chat="2")
    claim = take(conn, chat="2")
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("answer", claim.asked[0])], None, now_ms=NOW)
    assert column(conn, "SELECT id FROM messages WHERE recurrence IS NOT NULL") == [live]
    assert rows(conn, "SELECT message_id, data ->> 'reason' FROM events WHERE type = 'series_ended'") == [
        (row(conn, "messages", ended)["message_id"], ALREADY_LIVE)
    ]
