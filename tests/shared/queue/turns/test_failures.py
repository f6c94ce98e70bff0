"""A turn that fails: attempts, waits, and messages that run alone afterwards."""

import pytest

from shared.core.text import redaction
from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages, ready_sessions
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy
from tests.shared.queue.turns.ends import DAY, fail, settle
from tests.support import NOW, column, dump, put, row, take, texts


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
