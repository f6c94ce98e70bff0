"""A turn that ends with its process, with dispatch or with the host: which message is to blame."""

from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages, ready_sessions
from shared.db.roster import agent_pauses
from shared.queue import turns
from shared.queue.turns import Failure
from tests.shared.queue.turns.ends import DAY, POLICY, fail, settle
from tests.support import LEASE, NOW, column, make_agent, put, row, take


def kill_twice(conn, *chats):
    """Two turns in each chat end with their process."""
    for now in (NOW, NOW + DAY):
        for chat in chats:
            assert take(conn, chat=chat, now_ms=now) is not None
        with transaction(conn):
            turns.rescue(conn, POLICY, now_ms=now, everything=True)


def suspects(conn, now_ms):
    return [each.session_id for each in ready_sessions.find(conn, now_ms=now_ms) if each.is_suspect]


def test_a_message_whose_process_died_twice_stays_a_suspect_when_a_stop_or_an_urgent_message_ends_its_turn(conn):
    """Suspects run one at a time, so that a loss of dispatch speaks against the one that runs."""
    make_agent(conn, "assistant", concurrency=9, is_default=True)
    for chat in ("100", "200"):
        put(conn, chat=chat)
    kill_twice(conn, "100", "200")
    (first,) = suspects(conn, NOW + 2 * DAY)
    claim = take(conn, chat="100", now_ms=NOW + 2 * DAY)
    assert claim.session_id == first
    with transaction(conn):
        turns.release(conn, claim, now_ms=NOW + 2 * DAY)
    assert suspects(conn, NOW + 2 * DAY) == [first]
    assert len(ready_sessions.find(conn, now_ms=NOW + 2 * DAY)) == 1
    put(conn, "urgent", chat="100", urgency="urgent")
    assert suspects(conn, NOW + 2 * DAY) == [first]


def test_a_suspect_that_a_cancellation_releases_stays_one(conn):
    put(conn, "context", trigger=False)
    put(conn)
    kill_twice(conn, "100")
    claim = take(conn, now_ms=NOW + 2 * DAY)
    with transaction(conn):
        messages.cancel(conn, claim.batch[0].id, reason="unwanted", now_ms=NOW + 2 * DAY)
    assert suspects(conn, NOW + 2 * DAY) == [claim.session_id]


def test_a_turn_that_fails_in_another_way_ends_the_suspicion(conn):
    put(conn)
    kill_twice(conn, "100")
    fail(conn, take(conn, now_ms=NOW + 2 * DAY), Failure("it broke"), now_ms=NOW + 2 * DAY)
    assert suspects(conn, NOW + 4 * DAY) == []
    assert row(conn, "messages")["failure"] == "error"


def test_rescue_fails_only_turns_with_an_expired_lease(conn):
    put(conn)
    put(conn, chat="200")
    first = take(conn)
    take(conn, chat="200", token="turn_b", now_ms=NOW + 1)
    with transaction(conn):
        assert turns.rescue(conn, POLICY, now_ms=NOW + LEASE) == []
        assert turns.rescue(conn, POLICY, now_ms=NOW + LEASE + 1) == [first]
    assert rows(conn, "SELECT status, retry_count FROM messages ORDER BY id") == [("pending", 0), ("processing", 0)]


def lose(conn, *chats, now_ms, is_host_lost=False):
    """A turn in each chat ends with dispatch."""
    for chat in chats:
        assert take(conn, chat=chat, now_ms=now_ms) is not None
    with transaction(conn):
        turns.rescue(conn, POLICY, now_ms=now_ms, everything=True, is_host_lost=is_host_lost, since_ms=now_ms)


def test_a_message_that_takes_dispatch_down_whenever_it_runs_dies_at_last(conn):
    """Two losses make it a suspect; then it runs ever more rarely, at no attempt, and dispatch lives meanwhile."""
    put(conn)
    now, waits = NOW, []
    while row(conn, "messages")["status"] == "pending":
        lose(conn, "100", now_ms=now)
        found = row(conn, "messages")
        waits.append(found["process_after"] and found["process_after"] - now)
        now += 10**6
    assert waits == [None, None, 2500, 5000, 10_000, 20_000, 40_000, 80_000, *[150_000] * 11, None]
    assert (found["status"], found["retry_count"]) == ("dead", 1)
    assert found["last_error"] == f"{turns.PROCESS_GONE}, 20 times in a row while this message ran"
    assert column(conn, "SELECT message FROM responses") == [turns.APOLOGY]


def test_two_messages_that_each_take_dispatch_down_whenever_they_run_do_not_acquit_each_other(conn):
    """The second comes while the first waits. Both end, and dispatch is there for everybody else."""
    make_agent(conn, "assistant", concurrency=9, is_default=True)
    chats, now = {}, NOW
    for chat in ("100", "200"):
        put(conn, chat=chat)
        chats[column(conn, "SELECT max(session_id) FROM messages")[0]] = chat
        until = now + (10_000 if chat == "100" else 7_200_000)
        while now < until and "pending" in column(conn, "SELECT status FROM messages"):
            ready = [chats[each.session_id] for each in ready_sessions.find(conn, now_ms=now)]
            if ready:
                lose(conn, *ready, now_ms=now)
            now += 1000
    assert column(conn, "SELECT status FROM messages") == ["dead", "dead"]


def test_a_pause_of_its_agent_clears_no_message_that_takes_dispatch_down(conn):
    """Else it would run again whenever an owner gives more of a budget, for ever."""
    put(conn)
    for number in range(20):
        lose(conn, "100", now_ms=NOW + 2 * number * DAY)
        if row(conn, "messages")["status"] == "pending":
            now = NOW + (2 * number + 1) * DAY
            fail(conn, take(conn, now_ms=now), Failure("it is used up", code="budget"), now_ms=now)
            agent_pauses.try_all(conn, "budget", now_ms=now)
    assert row(conn, "messages")["status"] == "dead"


def test_ten_kills_of_dispatch_are_no_attempt_of_the_message_that_ran(conn):
    put(conn)
    for number in range(10):
        lose(conn, "100", now_ms=NOW + number * DAY)
    found = row(conn, "messages")
    assert (found["status"], found["retry_count"]) == ("pending", 0)
    settle(conn, take(conn, now_ms=NOW + 10 * DAY), now_ms=NOW + 10 * DAY)
    assert row(conn, "messages")["status"] == "completed"


def test_the_loss_of_dispatch_while_a_suspect_waits_acquits_it(conn):
    """Whatever else ran then is no suspect, or nothing ran; but not while another suspect ran."""
    make_agent(conn, "assistant", concurrency=9, is_default=True)
    for chat in ("100", "200"):
        put(conn, chat=chat)
    kill_twice(conn, "100", "200")
    lose(conn, "100", now_ms=NOW + DAY)
    lose(conn, "200", now_ms=NOW + DAY)
    waiting = [(30, NOW + DAY + 2500)] * 2
    assert rows(conn, "SELECT suspicion, process_after FROM messages") == waiting
    lose(conn, now_ms=NOW + DAY, is_host_lost=True)
    assert rows(conn, "SELECT suspicion, process_after FROM messages") == waiting
    lose(conn, now_ms=NOW + DAY)
    assert rows(conn, "SELECT suspicion, process_after FROM messages") == [(None, None)] * 2
    lose(conn, "100", now_ms=NOW + DAY)
    lose(conn, "200", now_ms=NOW + DAY)
    assert column(conn, "SELECT suspicion FROM messages") == [None, 10]


def test_a_lost_host_is_no_attempt_and_no_reason_for_suspicion(conn):
    put(conn)
    for _ in range(19):
        lose(conn, "100", now_ms=NOW, is_host_lost=True)
    found = row(conn, "messages")
    assert (found["status"], found["retry_count"], found["process_after"]) == ("pending", 0, None)
    assert found["last_error"] == turns.HOST_LOST
    assert suspects(conn, NOW) == []


def test_a_message_that_takes_its_host_down_each_time_dies_too(conn):
    put(conn)
    for number in range(38):
        assert row(conn, "messages")["status"] == "pending", number
        lose(conn, "100", now_ms=NOW + number * DAY, is_host_lost=True)
    assert row(conn, "messages")["status"] == "dead"


def test_the_neighbours_of_a_message_that_takes_dispatch_down_lose_no_attempt(conn):
    """Three of its turn, and one beside it, which is innocent as soon as there is a suspect."""
    for text in ("a", "bad", "c"):
        put(conn, text)
    for now in (NOW, NOW + 1, NOW + 2):
        put(conn, "beside", chat=f"chat {now}")
        lose(conn, "100", f"chat {now}", now_ms=now)
    suspicions = rows(conn, "SELECT message, suspicion FROM messages WHERE message <> 'c' AND message <> 'a'")
    assert suspicions == [("bad", 30), ("beside", 10), ("beside", 10), ("beside", None)]
    alone, now = [], NOW
    while (claim := take(conn, now_ms=now)) is not None:
        (asked,) = claim.asked
        alone.append(asked.message)
        if asked.message == "bad":
            with transaction(conn):
                turns.rescue(conn, POLICY, now_ms=now, everything=True)
            now += DAY
        else:
            settle(conn, claim, now_ms=now)
    assert alone == ["a", *["bad"] * 17, "c"]
    assert rows(conn, "SELECT message, status, retry_count FROM messages WHERE message <> 'beside'") == [
        *(("a", "completed", 0), ("bad", "dead", 1), ("c", "completed", 0))
    ]
