"""Which messages a turn claims, and who holds them."""

import json
from dataclasses import replace

import pytest

from shared.core.errors import ClaimLost
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import claims, messages, ready_sessions
from shared.db.queue.claims import MessageVerdict
from tests.shared.db.queue.claiming import RETRY, complete, fail
from tests.support import LEASE, NOW, column, dump, make_agent, make_chat, make_session, put, row, take, texts


def ready(conn, now_ms=NOW):
    return [each.session_id for each in ready_sessions.find(conn, now_ms=now_ms)]


# -- claim: order, and one turn at a time


def test_a_claim_takes_the_oldest_first_whatever_the_clock_said(conn):
    for text, at in (("a", NOW), ("b", NOW - 60_000), ("c", NOW)):
        put(conn, text, now_ms=at)
    claim = take(conn, limit=2)
    assert texts(claim) == ["a", "b"]
    assert row(conn, "messages", claim.batch[0].id)["claimed_by"] == "turn_a"
    assert row(conn, "messages", claim.batch[0].id)["lease"] == NOW + LEASE


def test_a_session_has_one_turn_at_a_time(conn):
    put(conn)
    put(conn)
    assert take(conn, limit=1) is not None
    assert take(conn, token="turn_b", limit=1) is None
    assert ready(conn) == []


def test_other_sessions_run_beside_it_up_to_the_agents_concurrency(conn):
    make_agent(conn, "wide", concurrency=2)
    for chat in ("1", "2", "3"):
        put(conn, chat=chat, agent="wide")
        put(conn, chat=chat)
    oldest_of_each_agent = [make_session(conn, agent, chat)[1] for agent, chat in (("wide", "1"), ("wide", "2"))]
    oldest_of_each_agent.insert(1, make_session(conn, "assistant", "1")[1])
    assert ready(conn) == oldest_of_each_agent
    take(conn, chat="1", agent="wide")
    assert ready(conn) == [make_session(conn, "assistant", "1")[1], make_session(conn, "wide", "2")[1]]
    take(conn, chat="2", agent="wide")
    take(conn, chat="1")
    assert ready(conn) == []


def test_the_session_whose_message_waits_longest_is_first(conn):
    make_agent(conn, "wide", concurrency=9)
    for chat in ("3", "1", "2"):
        put(conn, chat=chat, agent="wide")
    assert ready(conn) == [make_session(conn, "wide", chat)[1] for chat in ("3", "1", "2")]


def test_a_message_planned_for_later_gives_its_session_no_place(conn):
    """Else a chat with a reminder for tomorrow would be served before all others, today."""
    put(conn, chat="reminder", process_after=NOW + 60_000)
    put(conn, chat="waits longest")
    put(conn, chat="reminder")
    assert ready(conn) == [make_session(conn, chat="waits longest")[1]]


def test_a_session_with_something_urgent_is_first(conn):
    make_agent(conn, "wide", concurrency=9)
    for agent in ("assistant", "wide"):
        for chat in ("1", "2", "3"):
            put(conn, chat=chat, agent=agent)
    put(conn, chat="2", urgency="urgent")
    put(conn, chat="3", agent="wide", urgency="urgent")
    put(conn, chat="2", agent="wide", urgency="urgent", process_after=NOW + 1)
    put(conn, chat="2", agent="wide", urgency="urgent", trigger=False)
    places = [("assistant", "2"), ("wide", "3"), ("wide", "1"), ("wide", "2")]
    assert ready(conn) == [make_session(conn, *place)[1] for place in places]


# -- claim: what shares a turn

BATCHES = {
    "up to the limit": ([{}] * 12, 10),
    "a command that has its own place for the answer goes alone": ([{"content": '{"own_answer": true}'}, {}, {}], 1),
    "others stop before such a command": ([{}, {}, {"content": '{"own_answer": true}'}, {}], 2),
    "another thread of an agent-shared session apart": (
        [{"thread_id": "7"}, {"thread_id": "7"}, {"thread_id": "8"}],
        2,
    ),
}


OF_ANA, OF_BEN = ({"content": json.dumps({"context": {"receiver_user_id": person}})} for person in "56")
BATCHES |= {
    "a message that only one person sees apart": ([{}, {}, OF_ANA, {}], 2),
    "messages of one person that nobody else sees": ([OF_ANA, OF_ANA, {}], 2),
    "messages of two people that nobody else sees apart": ([OF_ANA, OF_BEN], 1),
}


@pytest.mark.parametrize(("fields", "size"), BATCHES.values(), ids=BATCHES)
def test_a_batch_is(conn, fields, size):
    chat, session = make_session(conn)
    for number, each in enumerate(fields):
        values = {
            "given_id": f"m{number}",
            "id_prefix": "telegram",
            "channel": "telegram",
            "sender": "A",
            "message": "t",
            "agent": "assistant",
        }
        with transaction(conn):
            new = messages.NewMessage(session_id=session, chat_id=chat, **values, **each)
            messages.enqueue(conn, new, now_ms=NOW)
    assert len(take(conn).batch) == size


def test_another_chat_of_an_agent_shared_session_is_a_turn_of_its_own(conn):
    _, session = make_session(conn)
    for number, chat in enumerate(("100", "100", "200")):
        chat_id = make_chat(conn, chat)
        new = messages.NewMessage(
            given_id=f"m{number}",
            id_prefix="telegram",
            channel="telegram",
            sender="A",
            message=chat,
            agent="assistant",
            session_id=session,
            chat_id=chat_id,
        )
        with transaction(conn):
            messages.enqueue(conn, new, now_ms=NOW)
    assert texts(take(conn)) == ["100", "100"]


def test_what_has_failed_goes_alone_next_time(conn):
    """One bad message must not use up the attempts of its neighbours."""
    for text in "abc":
        put(conn, text)
    fail(conn, take(conn))
    later = NOW + 5000
    claim = take(conn, now_ms=later)
    assert texts(claim) == ["a"]
    complete(conn, claim)
    assert texts(take(conn, now_ms=later)) == ["b"]


def test_what_has_failed_waits_for_its_own_turn_behind_an_older_one(conn):
    put(conn, "late", process_after=NOW + 4000)
    put(conn, "failed")
    fail(conn, take(conn))
    assert texts(take(conn, now_ms=NOW + 5000)) == ["late"]


# -- claim: what waits


@pytest.mark.parametrize("retry_count", [1, 0], ids=["after a failure", "after a rate limit, which costs no attempt"])
def test_a_head_that_waits_for_a_retry_holds_its_session_and_no_other(conn, retry_count):
    make_agent(conn, "wide", concurrency=9)
    put(conn, "first", agent="wide")
    fail(conn, take(conn, agent="wide"), replace(RETRY, retry_count=retry_count))
    put(conn, "second", agent="wide")
    put(conn, "elsewhere", agent="wide", chat="200")
    assert take(conn, agent="wide") is None
    assert ready(conn) == [make_session(conn, "wide", "200")[1]]
    assert texts(take(conn, agent="wide", now_ms=NOW + 5000))[0] == "first"


def test_a_message_for_later_does_not_hold_its_session(conn):
    put(conn, "later", process_after=NOW + 60_000)
    put(conn, "now")
    claim = take(conn)
    assert texts(claim) == ["now"]
    complete(conn, claim)
    assert ready(conn) == []
    assert take(conn, now_ms=NOW + 59_999) is None
    assert texts(take(conn, now_ms=NOW + 60_000)) == ["later"]


def test_next_due_is_the_earliest_that_still_waits(conn):
    assert ready_sessions.next_due(conn, now_ms=NOW) is None
    put(conn, process_after=NOW + 9000)
    put(conn, process_after=NOW + 7000, chat="200")
    put(conn, process_after=NOW - 1)
    assert ready_sessions.next_due(conn, now_ms=NOW) == NOW + 7000
    assert ready_sessions.next_due(conn, now_ms=NOW + 7000) == NOW + 9000


# -- context


def test_context_asks_for_no_turn(conn):
    put(conn, trigger=False)
    assert ready(conn) == []
    assert take(conn) is None


def test_triggers_come_first_then_the_newest_context_and_the_batch_is_in_time_order(conn):
    for number in range(5):
        put(conn, f"c{number}", trigger=False)
    put(conn, "t0")
    put(conn, "c5", trigger=False)
    put(conn, "t1")
    assert texts(take(conn, limit=4)) == ["c4", "t0", "c5", "t1"]


def test_what_one_person_alone_sees_is_context_for_that_person_alone(conn):
    """Such messages have sessions of their own; these are from before migration 7."""
    of_ana, of_ben = (json.loads(each["content"]) for each in (OF_ANA, OF_BEN))
    put(conn, "Ana's secret", trigger=False, content=of_ana)
    put(conn, "Ben's secret", trigger=False, content=of_ben)
    put(conn, "for all", trigger=False)
    put(conn, "question")
    put(conn, "Ana's question", content=of_ana)
    public = take(conn)
    assert texts(public) == ["for all", "question"]
    with transaction(conn):
        claims.release(conn, public, now_ms=NOW)
    rows(conn, "UPDATE messages SET status = 'completed' WHERE message = 'question'")
    assert texts(take(conn)) == ["Ana's secret", "for all", "Ana's question"]


def test_context_never_pushes_a_trigger_out_of_the_batch(conn):
    for number in range(10):
        put(conn, f"t{number}")
        put(conn, f"c{number}", trigger=False)
    assert texts(take(conn, limit=10)) == [f"t{number}" for number in range(10)]


def test_context_too_old_for_the_batch_ends_with_the_turn_and_newer_context_stays(conn):
    for number in range(3):
        put(conn, f"c{number}", trigger=False)
    put(conn, "t")
    claim = take(conn, limit=2)
    put(conn, "newer", trigger=False)
    complete(conn, claim)
    assert column(conn, "SELECT message FROM messages WHERE status = 'pending'") == ["newer"]


def test_context_of_a_failed_turn_waits_for_the_next_without_an_attempt(conn):
    put(conn, "c", trigger=False)
    put(conn, "t")
    fail(conn, take(conn))
    assert rows(conn, "SELECT message, status, retry_count, process_after, last_error FROM messages ORDER BY id") == [
        ("c", "pending", 0, None, None),
        ("t", "pending", 1, NOW + 5000, "broken"),
    ]
    assert texts(take(conn, now_ms=NOW + 5000)) == ["c", "t"]


# -- the fence


def test_renewing_moves_the_lease(conn):
    put(conn)
    claim = take(conn)
    with transaction(conn):
        claims.renew(conn, claim, lease_until=NOW + 99_000)
    assert claims.running(conn) == [(claim, NOW + 99_000)]


FENCED = {
    "renew": lambda conn, claim: claims.renew(conn, claim, lease_until=NOW + 1),
    "complete": lambda conn, claim: claims.complete(conn, claim, now_ms=NOW),
    "fail": lambda conn, claim: claims.fail(conn, claim, {claim.asked[0].id: RETRY}, now_ms=NOW),
}


@pytest.mark.parametrize("verb", FENCED.values(), ids=FENCED)
@pytest.mark.parametrize("taken_over", [True, False], ids=["by another turn", "and nobody has it"])
def test_a_lost_claim_changes_nothing(conn, verb, taken_over):
    put(conn, "context", trigger=False)
    put(conn)
    lost = take(conn, token="slow")
    fail(conn, lost, replace(RETRY, process_after=NOW))
    if taken_over:
        take(conn, token="quick")
    before = dump(conn)
    with pytest.raises(ClaimLost), transaction(conn):
        verb(conn, lost)
    assert dump(conn) == before


def test_a_batch_of_which_one_row_is_lost_is_lost_whole(conn):
    put(conn)
    put(conn)
    claim = take(conn)
    with transaction(conn):
        rows(conn, "UPDATE messages SET claimed_by = 'thief' WHERE id = 2")
    before = dump(conn)
    with pytest.raises(ClaimLost, match="has 1 of its 2 messages"), transaction(conn):
        claims.complete(conn, claim, now_ms=NOW)
    assert dump(conn) == before


def test_a_dead_message_keeps_its_reason_and_is_not_taken_again(conn):
    put(conn)
    verdict = MessageVerdict(dead=True, retry_count=5, process_after=None, reason="no use", failure="killed")
    fail(conn, take(conn), verdict)
    found = row(conn, "messages")
    assert (found["status"], found["retry_count"], found["last_error"]) == ("dead", 5, "no use")
    assert ready(conn, now_ms=NOW + 10**9) == []
    told = row(conn, "events")
    data = '{"reason": "no use", "failure": "killed", "retry_count": 5, "process_after": null}'
    assert (told["type"], told["data"]) == ("message_dead", data)


def test_running_tells_each_turn_with_its_batch_and_lease(conn):
    put(conn, "c", trigger=False)
    put(conn, "t")
    put(conn, "u", chat="200")
    first, second = take(conn), take(conn, chat="200", token="turn_b", now_ms=NOW + 5)
    assert claims.running(conn) == [(first, NOW + LEASE), (second, NOW + 5 + LEASE)]


def test_a_turn_that_loses_its_messages_while_it_is_looked_at_is_none(conn, db):
    """A connection that only reads sees, from one statement to the next, what others have done."""
    put(conn)
    claim = take(conn)
    reader = open_connection(db, readonly=True)

    def cancel_before_it_is_read(_, sql, __):
        if sql == claims.RUNNING:
            with transaction(conn):
                messages.cancel(conn, claim.batch[0].id, reason="by hand", now_ms=NOW)
        return True

    assert len(claims.running(reader)) == 1
    reader.exec_trace = cancel_before_it_is_read
    assert claims.running(reader) == []
    reader.close()


def test_the_claim_of_a_batch_is_one_event(conn):
    put(conn, "a")
    put(conn, "b")
    claim = take(conn)
    event = row(conn, "events")
    assert event["type"] == "chain_step_start"
    assert json.loads(event["data"]) == {"batch": [message.message_id for message in claim.batch], "attempt": 1}
