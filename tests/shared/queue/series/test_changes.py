"""A series is changed, paused, resumed and cancelled, as messages and as responses."""

import pytest

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.queue import series
from shared.queue.series import Change
from tests.shared.queue.series.kinds import DAILY, DAY, HOUR, NINE, ONCE, Responses, do, live, told
from tests.support import LEASE, NOW, answer, column, dump, put, row

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
    with pytest.raises(WrongState, match="has begun, so nothing is left to change") as refused:
        do(kind, verb, made.series_id, *more, now_ms=NINE)
    says_how_to_stop = f"cancel message {made.message_id}" in str(refused.value)
    assert says_how_to_stop is (kind.table == "messages")
    assert dump(kind.conn) == before
