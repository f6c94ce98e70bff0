"""What people and programs do to messages: cancel, retry, delete, hold, and hurry."""

import pytest

from shared.core.errors import ClaimLost, NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages, ready_sessions
from shared.db.queue.claims import MessageVerdict
from shared.db.queue.messages import NewMessage
from shared.queue import series
from tests.shared.db.queue.claiming import complete, fail
from tests.support import LEASE, NOW, column, dump, make_session, plan, put, row, take, texts

DEAD = MessageVerdict(dead=True, retry_count=5, process_after=None, reason="no use")


def by_hand(conn, verb, row_id, *, now_ms=NOW, **more):
    with transaction(conn):
        return getattr(messages, verb)(conn, row_id, now_ms=now_ms, **more)


def cancel(conn, row_id, now_ms=NOW):
    return by_hand(conn, "cancel", row_id, reason="unwanted", now_ms=now_ms)


def dead(conn, **fields):
    row_id = put(conn, "dead", **fields)
    fail(conn, take(conn), DEAD)
    return row_id


def told(conn, *types):
    return column(conn, f"SELECT type FROM events WHERE type IN ({','.join(map(repr, types))}) ORDER BY id")


# -- cancel


def test_cancelling_a_pending_message(conn):
    row_id = put(conn, process_after=NOW + 9)
    cancelled = cancel(conn, row_id, now_ms=NOW + 7)
    assert (cancelled.id, cancelled.agent, cancelled.channel) == (row_id, "assistant", "telegram")
    found = row(conn, "messages")
    assert (found["status"], found["last_error"], found["updated_at"]) == ("cancelled", "unwanted", NOW + 7)
    event = row(conn, "events")
    names = ("type", "message_id", "agent", "channel", "session_id", "data", "created_at")
    assert [event[name] for name in names] == [
        *("message_cancelled", cancelled.message_id, "assistant", "telegram", cancelled.session_id),
        *('{"reason": "unwanted"}', NOW + 7),
    ]
    assert ready_sessions.find(conn, now_ms=NOW + 99) == []


def test_cancelling_one_of_a_batch_frees_only_the_others_of_the_batch(conn):
    put(conn, "context", trigger=False)
    put(conn, "one")
    unwanted = put(conn, "two")
    put(conn, "beside", chat="200")
    claim, beside = take(conn), take(conn, chat="200", token="turn_b")
    waits = put(conn, "waits")
    cancel(conn, unwanted)
    found = rows(conn, "SELECT message, status, claimed_by, retry_count, last_error FROM messages ORDER BY id")
    assert found == [
        ("context", "pending", None, 0, None),
        ("one", "pending", None, 0, None),
        ("two", "cancelled", None, 0, "unwanted"),
        ("beside", "processing", "turn_b", 0, None),
        ("waits", "pending", None, 0, None),
    ]
    assert told(conn, "message_cancelled", "message_released") == ["message_cancelled", "message_released"]
    assert not claims.is_held(conn, claim)
    assert claims.is_held(conn, beside)
    before = dump(conn)
    with pytest.raises(ClaimLost):
        complete(conn, claim)
    assert dump(conn) == before
    assert texts(take(conn, token="turn_c")) == ["context", "one", "waits"]
    assert waits


def test_cancelling_the_context_of_a_turn_ends_that_turn_too(conn):
    """The agent has seen it: what it says now is not to be kept."""
    context = put(conn, "context", trigger=False)
    put(conn, "question")
    claim = take(conn)
    cancel(conn, context)
    assert not claims.is_held(conn, claim)
    assert column(conn, "SELECT status FROM messages ORDER BY id") == ["cancelled", "pending"]


@pytest.mark.parametrize("is_running", [False, True], ids=["one that waits", "one that runs"])
def test_cancelling_an_occurrence_skips_it_and_its_series_continues(conn, is_running):
    row_id = put(conn, recurrence="0 9 * * *", timezone="UTC", series_id="series_1", scheduled_at=NOW)
    if is_running:
        take(conn)
    cancel(conn, row_id)
    with transaction(conn):
        assert series.advance_messages(conn, now_ms=NOW) == 1
    told = rows(conn, "SELECT status, scheduled_at, recurrence FROM messages WHERE series_id = 'series_1' ORDER BY id")
    assert told == [("cancelled", NOW, None), ("pending", NOW + 60 * 60 * 1000, "0 9 * * *")]


# -- retry and delete


def test_retrying_a_dead_message_gives_all_attempts_back_and_the_old_place(conn):
    row_id = dead(conn)
    put(conn, "younger")
    assert by_hand(conn, "retry", row_id).id == row_id
    found = row(conn, "messages", row_id)
    names = ("status", "retry_count", "last_error", "failure", "process_after")
    assert [found[name] for name in names] == ["pending", 0, None, None, None]
    assert texts(take(conn)) == ["dead", "younger"]


def test_several_dead_messages_are_retried_the_oldest_first(conn):
    first, alive, second, third = dead(conn), put(conn, chat="200"), dead(conn), dead(conn)
    with transaction(conn):
        assert [each.id for each in messages.retry_many(conn, after=first, limit=1, now_ms=NOW)] == [second]
        assert [each.id for each in messages.retry_many(conn, after=0, limit=9, now_ms=NOW)] == [first, third]
        assert messages.retry_many(conn, after=0, limit=9, now_ms=NOW) == []
    assert column(conn, "SELECT status FROM messages") == ["pending"] * 4
    retried = column(conn, "SELECT message_id FROM events WHERE type = 'message_retried' ORDER BY id")
    assert retried == [row(conn, "messages", each)["message_id"] for each in (second, first, third)]
    assert alive


def test_the_dead_messages_to_retry_are_found_by_their_index(conn):
    lines = plan(conn, messages.DEAD_AFTER, after=1, limit=1)
    assert "SEARCH messages USING COVERING INDEX messages_dead (id>?)" in lines


def test_an_occurrence_that_is_retried_does_not_begin_a_second_series(conn):
    row_id = dead(conn, recurrence="0 9 * * *", timezone="UTC", series_id="series_1", scheduled_at=NOW)
    with transaction(conn):
        assert series.advance_messages(conn, now_ms=NOW) == 1
    by_hand(conn, "retry", row_id)
    assert column(conn, "SELECT id FROM messages WHERE recurrence IS NOT NULL") == [row_id + 1]


def test_deleting_forgets_the_row(conn):
    row_id = dead(conn, event_key="e1")
    put(conn)
    message_id = row(conn, "messages", row_id)["message_id"]
    by_hand(conn, "delete", row_id)
    assert column(conn, "SELECT id FROM messages") == [row_id + 1]
    assert messages.find(conn, message_id) is None
    assert rows(conn, "SELECT type, message_id FROM events WHERE type = 'message_deleted'") == [
        ("message_deleted", message_id)
    ]


def test_of_the_newest_row_only_the_text_goes_so_that_its_id_never_comes_again(conn):
    row_id = dead(conn, content={"context": {"a": 1}}, files=["secret.txt"])
    by_hand(conn, "delete", row_id)
    found = row(conn, "messages")
    assert [found[name] for name in ("id", "status", "message", "content", "files")] == [
        *(row_id, "cancelled", "", "{}", "[]"),
    ]
    assert put(conn) == row_id + 1


# -- what is refused

EXPECTED = {
    "cancel": ("pending", "processing", "paused"),
    "cancel_running": ("processing",),
    "retry": ("dead",),
    "delete": ("dead",),
}
STATES = ("pending", "processing", "completed", "dead", "paused", "cancelled")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", EXPECTED)
def test_a_verb_is_refused_in_any_other_state_and_changes_nothing(conn, verb, state):
    row_id = put(conn)
    put(conn, "newest", chat="200")
    claim = "claimed_by = 'turn_a', lease = 1, " if state == "processing" else ""
    with transaction(conn):
        rows(conn, f"UPDATE messages SET {claim} status = '{state}' WHERE id = {row_id}")
    before = dump(conn)
    more = {"reason": "unwanted"} if verb.startswith("cancel") else {}
    if state in EXPECTED[verb]:
        assert by_hand(conn, verb, row_id, **more).id == row_id
        assert dump(conn) != before
        return
    with pytest.raises(WrongState, match=f"is {state}; it can't be"):
        by_hand(conn, verb, row_id, **more)
    assert dump(conn) == before


@pytest.mark.parametrize("verb", EXPECTED)
def test_of_a_message_that_is_not_there_a_verb_says_so(conn, verb):
    more = {"reason": "unwanted"} if verb.startswith("cancel") else {}
    with pytest.raises(NotFound):
        by_hand(conn, verb, 7, **more)


# -- who holds what, and what is urgent


def test_a_turn_holds_its_messages_until_it_ends_or_they_are_taken(conn):
    put(conn)
    claim = take(conn)
    assert claims.is_held(conn, claim)
    fail(conn, claim)
    assert not claims.is_held(conn, claim)
    again = take(conn, token="turn_b", now_ms=NOW + LEASE)
    assert (claims.is_held(conn, claim), claims.is_held(conn, again)) == (False, True)
    complete(conn, again)
    assert not claims.is_held(conn, again)


def test_a_turn_whose_message_is_gone_holds_nothing(conn):
    row_id = put(conn)
    put(conn, chat="200")
    claim = take(conn)
    fail(conn, claim, DEAD)
    by_hand(conn, "delete", row_id)
    assert not claims.is_held(conn, claim)


NOT_URGENT = {
    "normal": {},
    "for later": {"urgency": "urgent", "process_after": NOW + 1},
    "context": {"urgency": "urgent", "trigger": False},
    "paused": {"urgency": "urgent", "status": "paused"},
    "of another session": {"urgency": "urgent", "chat": "200"},
}


@pytest.mark.parametrize("fields", NOT_URGENT.values(), ids=NOT_URGENT)
def test_only_a_due_trigger_is_urgent(conn, fields):
    _, session = make_session(conn)
    put(conn, **fields)
    assert session not in ready_sessions.urgent_sessions(conn, now_ms=NOW)
    put(conn, urgency="urgent")
    assert session in ready_sessions.urgent_sessions(conn, now_ms=NOW)
    take(conn)
    assert session not in ready_sessions.urgent_sessions(conn, now_ms=NOW)


def test_urgent_messages_take_the_places_of_older_ones_in_a_batch(conn):
    for text in ("a", "b", "c"):
        put(conn, text)
    put(conn, "U", urgency="urgent")
    put(conn, "context", trigger=False)
    put(conn, "V", urgency="urgent")
    assert texts(take(conn, limit=3)) == ["a", "U", "V"]


def test_only_urgent_ones_where_there_is_no_more_room_oldest_first(conn):
    put(conn, "a")
    for text in "UVW":
        put(conn, text, urgency="urgent")
    assert texts(take(conn, limit=2)) == ["U", "V"]


def test_an_urgent_message_of_another_thread_goes_alone(conn):
    _, session = make_session(conn)
    put(conn, "a")
    with transaction(conn):
        new = NewMessage("telegram", "telegram", sender="A", message="U", agent="assistant", session_id=session)
        messages.enqueue(conn, new._replace(urgency="urgent"), now_ms=NOW)
    assert texts(take(conn)) == ["U"]


def test_an_urgent_message_does_not_overtake_one_that_waits_for_a_retry(conn):
    """Its answer may have been begun: what comes after it waits, or the order is lost."""
    put(conn, "a")
    fail(conn, take(conn))
    put(conn, "U", urgency="urgent")
    assert take(conn) is None
    assert texts(take(conn, now_ms=NOW + 5000)) == ["U"]
