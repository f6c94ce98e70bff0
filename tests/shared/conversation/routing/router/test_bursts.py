"""Lines that one person writes in a row share a turn: the first one waits until the person has been still."""

import pytest

from shared.db.engine.connection import transaction
from shared.db.queue import claims, messages, ready_sessions
from shared.queue import stops
from tests.shared.conversation.routing.router.kit import event, make_chat, store, wire
from tests.support import LEASE, NOW, column, make_agent, put

QUIET = 500
UNTIL = "SELECT gathers_until FROM messages ORDER BY id"


@pytest.fixture
def chat(conn):
    chat = make_chat(conn)
    wire(conn, chat, debounce_ms=QUIET)
    return chat


def write(conn, *texts, at, **fields):
    first = column(conn, "SELECT count(*) FROM messages")[0]
    for number, text in enumerate(texts, first):
        store(conn, event(text, event_key=str(number), **fields), at=at)


def batch(conn, at):
    """The texts of the turn that can begin at this instant."""
    ready = ready_sessions.find(conn, now_ms=at)
    if not ready:
        return []
    with transaction(conn):
        taken = claims.claim(
            conn, "assistant", ready[0].session_id, token="turn_a", now_ms=at, lease_ms=LEASE, limit=10
        )
    return [each.message for each in taken.batch]


def test_lines_in_a_row_share_the_turn_that_begins_when_their_sender_is_still(conn, chat):
    for number in range(3):
        write(conn, str(number), at=NOW + 400 * number)
    still = NOW + 800 + QUIET
    assert ready_sessions.next_due(conn, now_ms=NOW + 800) == still
    assert batch(conn, still - 1) == []
    assert batch(conn, still) == ["0", "1", "2"]


def test_no_turn_takes_a_burst_that_goes_on_whoever_looks(conn, chat):
    write(conn, "1", "2", at=NOW)
    session = column(conn, "SELECT DISTINCT session_id FROM messages")[0]
    found = [claims.is_due(conn, "assistant", session, now_ms=NOW + ms) for ms in (QUIET - 1, QUIET)]
    assert found == [False, True]


def test_a_stream_of_lines_gets_its_turn_ten_seconds_after_the_first(conn, chat):
    for number in range(25):
        write(conn, str(number), at=NOW + 450 * number)
    assert column(conn, UNTIL)[0] == NOW + 10_000
    assert batch(conn, NOW + 9999) == []
    assert batch(conn, NOW + 10_000)[0] == "0"


def test_another_person_does_not_put_it_off_and_answers_stay_in_order(conn, chat):
    write(conn, "ana", at=NOW)
    write(conn, "ben", at=NOW + 400, sender_id="6")
    assert batch(conn, NOW + QUIET - 1) == []
    assert batch(conn, NOW + QUIET) == ["ana", "ben"]


def test_a_line_that_comes_again_puts_nothing_off(conn, chat):
    store(conn, event("a", event_key="1"), at=NOW)
    store(conn, event("a", event_key="1"), at=NOW + 400)
    assert batch(conn, NOW + QUIET) == ["a"]


def test_context_waits_for_nothing(conn):
    wire(conn, make_chat(conn, is_group=True), debounce_ms=QUIET, ignored_message_policy="accumulate")
    write(conn, "aside", at=NOW, is_group=True, is_mention=False)
    assert column(conn, UNTIL) == [None]


@pytest.mark.parametrize("fields", [{"text": "/of-the-agent"}, {"kind": "command"}], ids=["text", "slash command"])
def test_a_command_waits_for_nobody_and_neither_does_what_came_before_it(conn, chat, fields):
    write(conn, "first", at=NOW)
    store(conn, event(**fields, event_key="c"), at=NOW + 1)
    assert batch(conn, NOW + 1)[0] == "first"


def test_a_command_that_comes_first_does_not_wait(conn, chat):
    write(conn, "/anything", at=NOW)
    assert batch(conn, NOW) == ["/anything"]


def test_something_urgent_takes_the_lines_before_it_along_at_once(conn, chat):
    write(conn, "first", at=NOW)
    put(conn, "now!", urgency="urgent")
    assert batch(conn, NOW + 1) == ["first", "now!"]


def test_with_followup_each_line_gets_a_turn_of_its_own_and_none_waits(conn):
    wire(conn, make_chat(conn), debounce_ms=QUIET, while_busy="followup")
    write(conn, "1", "2", at=NOW)
    assert batch(conn, NOW) == ["1"]
    with transaction(conn):
        ((claim, _),) = claims.running(conn)
        claims.complete(conn, claim, now_ms=NOW)
    assert batch(conn, NOW) == ["2"]


def test_an_agent_that_asks_no_model_waits_only_where_it_is_asked_to(conn):
    make_agent(conn, "coder", provider="claude")
    chat = make_chat(conn)
    wire(conn, chat)
    wire(conn, chat, "coder")
    write(conn, "hello", at=NOW)
    found = dict(conn.execute("SELECT agent, gathers_until FROM messages").fetchall())
    assert found == {"assistant": None, "coder": NOW + 1000}


def test_a_stop_takes_the_lines_that_wait_for_more(conn, chat):
    write(conn, "1", "2", at=NOW)
    session = column(conn, "SELECT id FROM sessions")[0]
    with transaction(conn):
        done = stops.stop(conn, "assistant", session, channel="telegram", sender_id="5", now_ms=NOW)
    assert done == (2, 0)
    assert column(conn, "SELECT DISTINCT status FROM messages") == ["cancelled"]


def test_a_line_that_is_deleted_lets_the_next_one_run(conn, chat):
    write(conn, "1", "2", at=NOW)
    with transaction(conn):
        messages.cancel(conn, column(conn, "SELECT min(id) FROM messages")[0], reason="deleted", now_ms=NOW)
    assert batch(conn, NOW + 1) == ["2"]


def test_a_clock_that_is_set_back_by_an_hour_holds_nobody_up(conn, chat):
    write(conn, "hello", at=NOW)
    assert batch(conn, NOW - 3_600_000) == ["hello"]


def test_lines_that_come_while_a_turn_runs_wait_behind_it_and_then_for_their_sender(conn, chat):
    write(conn, "1", at=NOW)
    assert batch(conn, NOW + QUIET) == ["1"]
    write(conn, "2", at=NOW + 600)
    write(conn, "3", at=NOW + 700)
    with transaction(conn):
        ((claim, _),) = claims.running(conn)
        claims.complete(conn, claim, now_ms=NOW + 710)
    assert batch(conn, NOW + 720) == []
    assert batch(conn, NOW + 700 + QUIET) == ["2", "3"]
