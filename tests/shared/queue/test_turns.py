import json

import apsw
import pytest

from shared.core.errors import ClaimLost
from shared.core.text import redaction
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages, ready_sessions, sessions
from shared.db.queue.messages import NewMessage
from shared.db.roster import agent_pauses
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import LEASE, NOW, column, dump, make_agent, make_session, put, row, take, texts

POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
DAY = 24 * 60 * 60 * 1000
BROKEN = Failure("it broke")


def settle(conn, claim, *said, now_ms=NOW):
    with transaction(conn):
        turns.settle(conn, claim, said or [TurnReply("answer", claim.asked[0])], "go on", now_ms=now_ms)


def fail(conn, claim, failure=BROKEN, policy=POLICY, now_ms=NOW):
    with transaction(conn):
        return turns.fail(conn, claim, failure, policy, now_ms=now_ms)


def test_a_turn_is_settled_whole(conn):
    put(conn, "context", trigger=False)
    put(conn, "question", platform_message_id="m7", content={"is_group": True, "context": {"token": "sealed"}})
    claim = take(conn)
    settle(conn, claim, TurnReply("one", claim.asked[0]), TurnReply("two", claim.asked[0]), now_ms=NOW + 9)
    assert column(conn, "SELECT status FROM messages") == ["completed"] * 2
    assert rows(conn, "SELECT role, sender, content, created_at FROM agent_messages ORDER BY id") == [
        ("user", "Ana", "context", NOW),
        ("user", "Ana", "question", NOW + 1),  # TinyAGI's office has only the instants to put lines in order
        ("assistant", "assistant", "one", NOW + 9),
        ("assistant", "assistant", "two", NOW + 10),
    ]
    assert rows(conn, "SELECT message, created_at FROM responses ORDER BY id") == [("one", NOW + 9), ("two", NOW + 10)]
    response = row(conn, "responses", 1)
    names = ("message_id", "in_reply_to", "channel", "platform_id", "sender", "sender_id", "original_message", "agent")
    asked = claim.asked[0]
    assert [response[name] for name in names] == [
        *(asked.message_id, asked.id, "telegram", "100", "Ana", "5", "question", "assistant")
    ]
    content = {"reply_to": "m7", "context": {"token": "sealed"}, "asked_at": NOW}
    assert json.loads(response["content"]) == content
    assert sessions.get(conn, claim.session_id).continuation == "go on"
    assert rows(conn, "SELECT type, created_at FROM events ORDER BY id")[-3:] == [
        *(("response_ready", NOW + 9), ("response_ready", NOW + 10), ("chain_step_done", NOW + 10))
    ]


def test_in_a_direct_chat_the_answer_quotes_nothing(conn):
    put(conn, platform_message_id="m7")
    settle(conn, take(conn))
    assert "reply_to" not in row(conn, "responses")["content"]


STATEMENTS = ("messages", "agent_messages", "responses", "sessions", "events")


@pytest.mark.parametrize("table", STATEMENTS)
def test_a_settlement_with_a_failing_statement_keeps_nothing(conn, table):
    put(conn)
    claim = take(conn)
    verb = "UPDATE" if table in ("messages", "sessions") else "INSERT"
    rows(conn, f"CREATE TEMP TRIGGER broken BEFORE {verb} ON main.{table} BEGIN SELECT raise(ABORT, 'broken'); END")
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError, match="broken"):
        settle(conn, claim)
    assert dump(conn) == before


@pytest.mark.parametrize("verb", ["settle", "fail", "release"])
def test_a_turn_without_its_lease_leaves_nothing(conn, verb):
    put(conn)
    lost = take(conn)
    with transaction(conn):
        turns.rescue(conn, POLICY, now_ms=NOW, everything=True)
    before = dump(conn)
    with pytest.raises(ClaimLost):  # noqa: PT012 - three verbs of different shape
        if verb == "settle":
            settle(conn, lost)
        elif verb == "fail":
            fail(conn, lost)
        else:
            with transaction(conn):
                turns.release(conn, lost, now_ms=NOW)
    assert dump(conn) == before


@pytest.mark.parametrize(
    ("jitter", "waits"), [(0.0, [2500, 5000, 10_000, 20_000]), (0.999999, [4999, 9999, 19_999, 39_999])]
)
def test_a_message_has_five_attempts_with_doubling_waits_and_then_its_sender_gets_a_sentence(conn, jitter, waits):
    put(conn, "question")
    policy = RetryPolicy(5, 5000, 300_000, jitter)
    now, seen = NOW, []
    for _ in range(4):
        assert fail(conn, take(conn, now_ms=now), policy=policy, now_ms=now) == []
        found = row(conn, "messages")
        seen.append(found["process_after"] - now)
        assert take(conn, now_ms=found["process_after"] - 1) is None
        now = found["process_after"]
    assert seen == waits
    assert column(conn, "SELECT count(*) FROM responses") == [0]
    (dead,) = fail(conn, take(conn, now_ms=now), policy=policy, now_ms=now)
    assert dead.message == "question"
    found = row(conn, "messages")
    assert (found["status"], found["retry_count"], found["last_error"]) == ("dead", 5, "it broke")
    assert rows(conn, "SELECT message, platform_id, message_id FROM responses") == [
        (turns.APOLOGY, "100", dead.message_id)
    ]


def test_the_reason_of_a_failure_shows_no_secret(conn):
    """A program or a provider may repeat an address or a setting in its error."""
    redaction.register("secret-of-a-provider")
    put(conn)
    fail(conn, take(conn), Failure("no route to https://x/secret-of-a-provider"))
    assert row(conn, "messages")["last_error"] == "no route to https://x/***"
    assert "secret-of-a-provider" not in str(dump(conn))


def test_a_permanent_failure_is_reported_at_once_without_the_operators_reason(conn):
    put(conn)
    fail(conn, take(conn), Failure("the key is wrong", retryable=False))
    assert column(conn, "SELECT status FROM messages") == ["dead"]
    assert column(conn, "SELECT message FROM responses") == [turns.APOLOGY]
    assert "the key" not in turns.APOLOGY


FOR_GOOD = {
    "a reject": Failure("no", retryable=False),
    "too much output": Failure("too much", code="output_limit"),
    "circles": Failure("round and round", code="runaway"),
    "a conversation that is too long": Failure("too long", code="context_too_long"),
}


@pytest.mark.parametrize("failure", FOR_GOOD.values(), ids=FOR_GOOD)
def test_after_a_turn_of_several_that_fails_for_good_each_runs_alone_and_only_the_bad_one_dies(conn, failure):
    for text in ("a", "bad", "c"):
        put(conn, text)
    put(conn, "context", trigger=False)
    assert fail(conn, take(conn), failure) == []
    put(conn, "a later one")
    alone = []
    while (claim := take(conn)) is not None:
        (asked,) = claim.asked
        alone.append((asked.message, asked.retry_count))
        if asked.message == "bad":
            fail(conn, claim, failure)
        else:
            settle(conn, claim)
    assert alone == [("a", 0), ("bad", 0), ("c", 0), ("a later one", 0)]
    assert rows(conn, "SELECT message, retry_count FROM messages WHERE status = 'dead'") == [("bad", 1)]
    assert rows(conn, "SELECT original_message FROM responses WHERE message = ?", (turns.APOLOGY,)) == [("bad",)]
    assert column(conn, "SELECT status FROM messages WHERE message <> 'bad'") == ["completed"] * 4


def test_messages_that_run_alone_wait_for_each_other_also_through_waits_and_interruptions(conn):
    for text in ("a", "b"):
        put(conn, text)
    fail(conn, take(conn), FOR_GOOD["a reject"])
    fail(conn, take(conn), Failure("slow down", wait_ms=7000))
    assert take(conn) is None
    claim = take(conn, now_ms=NOW + 7000)
    with transaction(conn):
        turns.release(conn, claim, now_ms=NOW + 7000)
    assert texts(take(conn, now_ms=NOW + 7000)) == ["a"]


def test_the_last_attempt_is_one_that_a_message_has_alone(conn):
    put(conn, "a")
    put(conn, "b")
    once = RetryPolicy(max_attempts=1, base_ms=5000, cap_ms=300_000, jitter=0.0)
    assert fail(conn, take(conn), policy=once) == []
    assert [each.message for each in fail(conn, take(conn), policy=once)] == ["a"]


def test_messages_that_ran_alone_may_share_a_turn_again_after_a_retry_by_hand(conn):
    for text in ("a", "b"):
        put(conn, text)
    fail(conn, take(conn), FOR_GOOD["a reject"])
    for _ in range(2):
        fail(conn, take(conn), FOR_GOOD["a reject"])
    with transaction(conn):
        messages.retry(conn, 1, now_ms=NOW)
        assert len(messages.retry_many(conn, after=0, limit=10, now_ms=NOW)) == 1
    assert texts(take(conn)) == ["a", "b"]


def test_a_program_that_can_not_start_is_retried(conn):
    """Memory or descriptors may be short for a moment."""
    put(conn)
    fail(conn, take(conn), Failure("can't start", code="not_started"))
    found = row(conn, "messages")
    assert (found["status"], found["retry_count"], found["process_after"]) == ("pending", 1, NOW + 2500)


WAITS = {
    "as asked": (7000, 7000),
    "a second": (1000, 1000),
    "at most a day": (10**18, 86_400_000),
}


@pytest.mark.parametrize(("asked", "waited"), WAITS.values(), ids=WAITS)
def test_a_requested_wait_costs_no_attempt(conn, asked, waited):
    put(conn)
    for _ in range(7 if waited < DAY else 1):
        now = row(conn, "messages")["process_after"] or NOW
        fail(conn, take(conn, now_ms=now), Failure("slow down", wait_ms=asked), now_ms=now)
        found = row(conn, "messages")
        assert (found["status"], found["retry_count"], found["process_after"] - now) == ("pending", 0, waited)


@pytest.mark.parametrize("failure", [Failure(""), Failure(" \n"), Failure("", wait_ms=5000)])
def test_a_failure_without_a_reason_keeps_its_place_too(conn, failure):
    """A message that waits for a retry holds its session; one that is planned for later does not."""
    put(conn, "first")
    fail(conn, take(conn), failure)
    put(conn, "second")
    assert ready_sessions.find(conn, now_ms=NOW) == []
    assert row(conn, "messages", 1)["last_error"] == turns.NO_REASON
    assert column(conn, "SELECT type FROM events WHERE type <> 'chain_step_start'") == ["message_retry"]


def test_a_release_costs_no_attempt_and_no_wait(conn):
    put(conn, "context", trigger=False)
    put(conn)
    claim = take(conn)
    with transaction(conn):
        turns.release(conn, claim, now_ms=NOW)
    assert (
        rows(conn, "SELECT status, retry_count, process_after, last_error FROM messages")
        == [("pending", 0, None, None)] * 2
    )
    assert row(conn, "events")["type"] == "message_released"
    assert len(take(conn, token="turn_b").batch) == 2


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


# -- series

DAILY = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "series_1", "kind": "task"}
NINE = NOW + 3_600_000  # 09:00 UTC


def occurrence(conn, **fields):
    put(conn, "task", process_after=NINE, scheduled_at=NINE, **{**DAILY, **fields})
    return take(conn, now_ms=NINE)


def live(conn):
    return rows(conn, "SELECT status, process_after FROM messages WHERE recurrence IS NOT NULL")


def test_an_occurrence_hands_over_when_it_is_settled(conn):
    settle(conn, occurrence(conn), now_ms=NINE + 60_000)
    assert live(conn) == [("pending", NINE + 86_400_000)]


def test_a_dead_occurrence_does_not_end_its_series(conn):
    fail(conn, occurrence(conn), Failure("no", retryable=False), now_ms=NINE)
    assert live(conn) == [("pending", NINE + 86_400_000)]


def test_a_failed_one_is_still_the_live_one(conn):
    fail(conn, occurrence(conn), now_ms=NINE)
    assert live(conn) == [("pending", NINE + 2500)]
    assert take(conn, now_ms=NINE + 2500).batch[0].message == "task"


UNUSABLE = {
    "a zone that is gone": {"timezone": "Mars/Olympus"},
    "a date that never comes": {"recurrence": "0 0 30 2 *"},
}


@pytest.mark.parametrize("fields", UNUSABLE.values(), ids=UNUSABLE)
def test_a_series_that_can_not_continue_ends_with_an_event_and_delays_no_settlement(conn, fields):
    """One bad row must not keep every turn of every session from settling."""
    settle(conn, occurrence(conn, **fields), now_ms=NINE)
    assert live(conn) == []
    assert column(conn, "SELECT status FROM messages") == ["completed"]
    (reason,) = column(conn, "SELECT data ->> 'reason' FROM events WHERE type = 'series_ended'")
    assert next(iter(fields.values())) in reason


def test_the_session_of_a_settled_turn_is_free_again(conn):
    put(conn)
    put(conn)
    settle(conn, take(conn, limit=1))
    assert [each.session_id for each in ready_sessions.find(conn, now_ms=NOW)] == [make_session(conn)[1]]


def test_a_large_turn_keeps_the_prepared_statements_of_the_next_one(conn):
    """apsw keeps the statements that were used last, and counts each row of an ``executemany`` as a use."""
    _, session = make_session(conn)
    new = NewMessage(id_prefix="telegram", agent="assistant", session_id=session, sender="Ana", message="hello")

    def turn():
        with transaction(conn):
            messages.enqueue_many(conn, [new] * 20, now_ms=NOW)
        with transaction(conn):
            claim = claims.claim(conn, "assistant", session, token="t", now_ms=NOW, lease_ms=LEASE, limit=20)
        with transaction(conn):
            turns.settle(conn, claim, [TurnReply("hi", each) for each in claim.asked], None, now_ms=NOW)
        assert len(claim.asked) == 20

    turn()
    prepared = conn.cache_stats()["misses"]
    turn()
    assert conn.cache_stats()["misses"] == prepared


# -- waits that cost no attempt


def waited(conn, *, at, wait_ms=1000):
    """The turn is told to wait at that instant; the message's state afterwards."""
    fail(conn, take(conn, now_ms=at), Failure("slow down", wait_ms=wait_ms), now_ms=at)
    found = row(conn, "messages")
    return found["status"], found["retry_count"], found["process_after"]


def test_an_agent_that_asks_for_waits_for_ever_is_given_up_after_a_day(conn):
    put(conn)
    for at in (NOW, NOW + 1000, *range(NOW + DAY // 6, NOW + DAY, DAY // 6)):
        assert waited(conn, at=at) == ("pending", 0, at + 1000)
    assert row(conn, "messages")["waits_since"] == NOW
    assert waited(conn, at=NOW + DAY) == ("dead", 0, None)
    found = row(conn, "messages")
    assert found["last_error"] == "slow down; given up after 24 hours of waits that the agent asked for"
    assert (found["failure"], found["waits_since"]) == ("rate_limited", NOW)
    assert column(conn, "SELECT message FROM responses") == [turns.APOLOGY]


@pytest.mark.parametrize("wait_ms", [0, 999])
def test_a_wait_of_less_than_a_second_is_none_and_spends_attempts(conn, wait_ms):
    """For ever, it would start the program again each second."""
    put(conn)
    assert [waited(conn, at=NOW + each * DAY // 10, wait_ms=wait_ms)[:2] for each in range(5)] == [
        *(("pending", count) for count in (1, 2, 3, 4)),
        ("dead", 5),
    ]


def test_the_last_wait_ends_when_the_day_is_over(conn):
    put(conn)
    for at in range(NOW, NOW + DAY - 5000, DAY // 6):
        waited(conn, at=at)
    assert waited(conn, at=NOW + DAY - 5000, wait_ms=DAY) == ("pending", 0, NOW + DAY)


def test_a_machine_that_slept_for_days_bears_another_wait_that_the_agent_asks_for(conn):
    put(conn)
    waited(conn, at=NOW)
    later = NOW + 2 * DAY
    assert waited(conn, at=later) == ("pending", 0, later + 1000)
    assert row(conn, "messages")["waits_since"] == later


def test_a_counted_attempt_or_a_retry_by_hand_begins_the_day_anew(conn):
    put(conn)
    waited(conn, at=NOW)
    fail(conn, take(conn, now_ms=NOW + 1000), now_ms=NOW + 1000)
    later = NOW + DAY
    for at in range(later, later + DAY, DAY // 6):
        assert waited(conn, at=at) == ("pending", 1, at + 1000)
    assert waited(conn, at=later + DAY)[0] == "dead"
    with transaction(conn):
        messages.retry(conn, 1, now_ms=later + DAY)
    assert waited(conn, at=later + DAY) == ("pending", 0, later + DAY + 1000)
