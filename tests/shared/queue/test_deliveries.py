from dataclasses import replace

import pytest

from shared.core.errors import ClaimLost, OutcomeUnknown, PermanentError, RateLimited, RetryableError
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.queue import deliveries
from shared.queue.deliveries import DeliveryPolicy
from tests.support import LEASE, NOW, answer, column, dump, row

POLICY = DeliveryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
HOLD = replace(POLICY, unknown_sends="hold")


def take(conn, id_=None, now_ms=NOW):
    id_ = id_ or answer(conn)
    with transaction(conn):
        return responses.claim(conn, id_, token="send_a", now_ms=now_ms, lease_ms=LEASE)


VERDICTS = {
    "a wait that was asked for costs no attempt": (RateLimited("429", 7000), 4, POLICY, ("pending", 4, 7000)),
    "a wait without a number is a second": (RateLimited("429"), 0, POLICY, ("pending", 0, 1000)),
    "a wait of no time is a second": (RateLimited("429", 0), 0, POLICY, ("pending", 0, 1000)),
    "a wait of years is a day": (RateLimited("429", 10**15), 0, POLICY, ("pending", 0, 86_400_000)),
    "another try, backed off": (RetryableError("reset"), 1, POLICY, ("pending", 2, 5000)),
    "another try, when told": (RetryableError("busy", 60_000), 0, POLICY, ("pending", 1, 60_000)),
    "the fifth is the last": (RetryableError("reset"), 4, POLICY, ("dead", 5, None)),
    "no use": (PermanentError("blocked"), 0, POLICY, ("dead", 1, None)),
    "unknown, resend": (OutcomeUnknown("silence"), 0, POLICY, ("pending", 1, 2500)),
    "unknown, hold": (OutcomeUnknown("silence"), 0, HOLD, ("dead", 1, None)),
    "hold holds only the unknown": (RetryableError("reset"), 0, HOLD, ("pending", 1, 2500)),
}


@pytest.mark.parametrize(("error", "tried", "policy", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(conn, error, tried, policy, expected):
    id_ = answer(conn)
    with transaction(conn):
        rows(conn, "UPDATE responses SET retry_count = :tried", {"tried": tried})
    response = take(conn, id_)
    with transaction(conn):
        deliveries.fail(conn, response, error, policy, now_ms=NOW)
    found = row(conn, "responses")
    wait = found["deliver_after"] and found["deliver_after"] - NOW
    assert (found["status"], found["retry_count"], wait) == expected
    assert found["last_error"] == str(error)
    assert (found["part_started"] is None) == (not isinstance(error, OutcomeUnknown))


def test_a_requested_wait_holds_the_whole_chat_and_no_other(conn):
    limited, other = answer(conn, chat="1"), answer(conn, chat="2")
    answer(conn, chat="1")
    response = take(conn, limited)
    with transaction(conn):
        deliveries.fail(conn, response, RateLimited("429", 7000), POLICY, now_ms=NOW)
    assert column(conn, "SELECT not_before FROM chats ORDER BY id") == [NOW + 7000, None]
    assert responses.heads(conn, "telegram", now_ms=NOW + 6999) == [other]
    assert responses.heads(conn, "telegram", now_ms=NOW + 7000) == [limited, other]


def test_rescue_ends_expired_sends_of_its_channel_by_policy(conn):
    expired, alive, foreign = answer(conn, chat="1"), answer(conn, chat="2"), answer(conn, channel="discord")
    take(conn, expired)
    take(conn, alive, now_ms=NOW + 1)
    take(conn, foreign)
    with transaction(conn):
        assert deliveries.rescue(conn, "telegram", HOLD, now_ms=NOW + LEASE) == 0
        assert deliveries.rescue(conn, "telegram", HOLD, now_ms=NOW + LEASE + 1) == 1
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["dead", "delivering", "delivering"]
    assert row(conn, "responses", expired)["part_started"] == 0


def test_everything_means_everything(conn):
    take(conn)
    with transaction(conn):
        assert deliveries.rescue(conn, "telegram", POLICY, now_ms=NOW, everything=True) == 1
    assert column(conn, "SELECT status FROM responses") == ["pending"]


@pytest.mark.parametrize("error", [None, PermanentError("no")], ids=["acknowledged", "dead"])
def test_a_recurring_response_hands_over_however_it_ended(conn, error):
    answer(conn)
    with transaction(conn):
        rows(
            conn,
            "UPDATE responses SET recurrence = '0 9 * * *', timezone = 'UTC', series_id = 's', scheduled_at = :now",
            {"now": NOW},
        )
    response = take(conn, 1)
    with transaction(conn):
        if error is None:
            deliveries.acknowledge(conn, response, ("m1",), now_ms=NOW)
        else:
            deliveries.fail(conn, response, error, POLICY, now_ms=NOW)
    assert rows(conn, "SELECT status, deliver_after FROM responses WHERE recurrence IS NOT NULL") == [
        ("pending", NOW + 3_600_000)
    ]


def test_a_lost_claim_acknowledges_nothing(conn):
    response = take(conn)
    with transaction(conn):
        deliveries.rescue(conn, "telegram", POLICY, now_ms=NOW, everything=True)
    before = dump(conn)
    with pytest.raises(ClaimLost), transaction(conn):
        deliveries.acknowledge(conn, response, ("m1",), now_ms=NOW)
    assert dump(conn) == before
