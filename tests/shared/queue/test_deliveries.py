from dataclasses import replace

import pytest

from shared.core.errors import (
    ChatGone,
    ChatMoved,
    ClaimLost,
    NotSent,
    OutcomeUnknown,
    PermanentError,
    PlatformDown,
    RateLimited,
    RetryableError,
    TokenRefused,
)
from shared.core.settings import Settings
from shared.core.text import redaction
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_outages, channel_pauses
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.queue import responses
from shared.queue import deliveries, delivery_verdicts
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.platforms import pauses
from tests.support import LEASE, NOW, answer, column, dump, row

DAY = 24 * 60 * 60 * 1000

POLICY = DeliveryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
HOLD = replace(POLICY, unknown_sends="hold")


def take(conn, id_=None, now_ms=NOW):
    id_ = id_ or answer(conn)
    with transaction(conn):
        return responses.claim(conn, id_, token="send_a", now_ms=now_ms, lease_ms=LEASE)


VERDICTS = {
    "a wait that was asked for costs no attempt": (RateLimited("429", 7000), 4, POLICY, ("pending", 4, 7000)),
    "a short wait is as short as was asked for": (RateLimited("429", 251), 0, POLICY, ("pending", 0, 251)),
    "a wait without a number is a second": (RateLimited("429"), 0, POLICY, ("pending", 0, 1000)),
    "a wait of no time is a second": (RateLimited("429", 0), 0, POLICY, ("pending", 0, 1000)),
    "a wait of years is a day": (RateLimited("429", 10**15), 0, POLICY, ("pending", 0, 86_400_000)),
    "another try, backed off": (RetryableError("reset"), 1, POLICY, ("pending", 2, 10_000)),
    "another try, when told": (RetryableError("busy", 60_000), 0, POLICY, ("pending", 1, 60_000)),
    "the fifth is the last": (RetryableError("reset"), 4, POLICY, ("dead", 5, None)),
    "no use": (PermanentError("blocked"), 0, POLICY, ("dead", 1, None)),
    "unknown, resend": (OutcomeUnknown("silence"), 0, POLICY, ("pending", 1, 2500)),
    "a platform that can't work costs no attempt": (PlatformDown("502"), 4, HOLD, ("pending", 4, 2500)),
    "nor if it may have done it": (PlatformDown("502", may_have_arrived=True), 4, POLICY, ("pending", 4, 2500)),
    "which hold holds": (PlatformDown("502", may_have_arrived=True), 0, HOLD, ("dead", 1, None)),
    "a repetition without a second effect": (
        OutcomeUnknown("silence", is_repeatable=True),
        0,
        HOLD,
        ("pending", 1, 2500),
    ),
    "unknown, hold": (OutcomeUnknown("silence"), 0, HOLD, ("dead", 1, None)),
    "hold holds only the unknown": (RetryableError("reset"), 0, HOLD, ("pending", 1, 2500)),
    "what never left costs no attempt": (NotSent("refused"), 4, HOLD, ("pending", 4, 2500)),
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
    assert (found["part_started"] is None) == (found["failure"] != "outcome_unknown")


def failed(conn, error, *, policy=POLICY, unsent_since=None, due=NOW):
    """The row of a response that was due at *due*, and whose send at NOW failed with *error*."""
    id_ = answer(conn, deliver_after=due)
    rows(conn, "UPDATE responses SET unsent_since = :since WHERE id = :id", {"since": unsent_since, "id": id_})
    response = take(conn, id_)
    with transaction(conn):
        deliveries.fail(conn, response, error, policy, now_ms=NOW)
    return row(conn, "responses", id_)


UNSENT_WAITS = {0: 2500, 1000: 2500, 20_000: 10_000, 3_600_000: 30_000, DAY - 1: 30_000, -5: 2500}


@pytest.mark.parametrize(("elapsed_ms", "wait_ms"), UNSENT_WAITS.items())
def test_the_longer_an_outage_the_longer_the_waits_up_to_a_minute(conn, elapsed_ms, wait_ms):
    channel_outages.begin(conn, ChannelOutage("telegram", NOW - elapsed_ms, "unreachable", "no", NOW), now_ms=NOW)
    found = failed(conn, NotSent("refused"), unsent_since=NOW - elapsed_ms)
    assert (found["status"], found["retry_count"], found["deliver_after"]) == ("pending", 0, NOW + wait_ms)
    assert found["unsent_since"] == min(NOW - elapsed_ms, NOW)
    assert channel_outages.get(conn, "telegram").probe_at == NOW + wait_ms


def test_what_could_not_leave_for_a_day_is_dead_with_that_reason(conn):
    found = failed(conn, NotSent("refused"), unsent_since=NOW - DAY)
    assert (found["status"], found["retry_count"]) == ("dead", 0)
    assert found["last_error"] == "refused; given up after 24 hours"


def test_a_machine_that_slept_for_days_tries_for_a_day_again(conn):
    """A network needs a moment when its machine wakes; nothing was tried meanwhile."""
    found = failed(conn, NotSent("refused"), unsent_since=NOW - 3 * DAY, due=NOW - 2 * DAY)
    assert (found["status"], found["unsent_since"]) == ("pending", NOW)
    found = failed(conn, NotSent("refused"), unsent_since=NOW - 3 * DAY, due=NOW - DAY // 8)
    assert found["status"] == "dead"


def test_a_repetition_that_the_platform_recognises_comes_while_it_remembers_the_first(conn):
    """Discord remembers a nonce for some minutes."""
    id_ = answer(conn)
    rows(conn, "UPDATE responses SET retry_count = 3")
    for error, wait_ms in ((RetryableError("502"), 60_000), (OutcomeUnknown("502"), 150_000)):
        response = replace(take(conn, id_), retry_count=3)
        assert delivery_verdicts.judge(response, error, POLICY, now_ms=NOW).deliver_after == NOW + wait_ms
        with transaction(conn):
            responses.release(conn, response)


def test_a_request_that_left_ends_the_outage(conn):
    assert failed(conn, OutcomeUnknown("502"), unsent_since=NOW - DAY)["unsent_since"] is None


def test_with_the_default_settings_the_attempts_outlast_an_outage_of_75_s(conn):
    """Also where jitter makes each wait as short as it can be."""
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    policy = replace(DeliveryPolicy.of(Settings.model_construct(**defaults)), jitter=0.0)
    id_, now, instants = answer(conn, channel="discord"), NOW, []
    while now is not None:
        instants.append(now - NOW)
        response = take(conn, id_, now_ms=now)
        with transaction(conn):
            deliveries.fail(conn, response, OutcomeUnknown("502"), policy, now_ms=now)
        now = row(conn, "responses", id_)["deliver_after"]
    assert instants == [0, 2500, 12_500, 52_500, 202_500]


def test_a_refused_token_pauses_the_channel_and_the_response_keeps_its_place_and_attempts(conn):
    first = answer(conn, chat="1")
    answer(conn, chat="1")
    for expected in (True, False):
        response = take(conn, first)
        with transaction(conn):
            assert pauses.hold(conn, response, TokenRefused("401"), now_ms=NOW) is expected
    found = row(conn, "responses", first)
    assert (found["status"], found["retry_count"], found["part_started"], found["failure"]) == (
        "pending",
        0,
        None,
        None,
    )
    assert responses.heads(conn, "telegram", now_ms=NOW) == [first]
    assert channel_pauses.every(conn)["telegram"].check_at == NOW + 60_000


CHECKS = {0: 60_000, 120_000: 120_000, DAY: 600_000}


@pytest.mark.parametrize(("elapsed_ms", "wait_ms"), CHECKS.items())
def test_the_longer_a_pause_the_rarer_its_checks(conn, elapsed_ms, wait_ms):
    with transaction(conn):
        channel_pauses.pause(conn, "telegram", "401", check_at=NOW, now_ms=NOW)
        pause = channel_pauses.every(conn)["telegram"]
        pauses.check_again(conn, pause, "still 401", now_ms=NOW + elapsed_ms)
    later = channel_pauses.every(conn)["telegram"]
    assert (later.reason, later.check_at) == ("still 401", NOW + elapsed_ms + wait_ms)


def test_a_requested_wait_holds_the_whole_chat_and_no_other(conn):
    limited, other = answer(conn, chat="1"), answer(conn, chat="2")
    answer(conn, chat="1")
    response = take(conn, limited)
    with transaction(conn):
        deliveries.fail(conn, response, RateLimited("429", 7000), POLICY, now_ms=NOW)
    assert column(conn, "SELECT not_before FROM chats ORDER BY id") == [NOW + 7000, None]
    assert responses.heads(conn, "telegram", now_ms=NOW + 6999) == [other]
    assert responses.heads(conn, "telegram", now_ms=NOW + 7000) == [limited, other]


def test_a_chat_that_moved_takes_its_responses_along(conn):
    """The platform tells of the new id with a send, and perhaps only there."""
    first, second, other = answer(conn, chat="-1"), answer(conn, chat="-1"), answer(conn, chat="2")
    response = take(conn, first)
    with transaction(conn):
        verdict = deliveries.fail(conn, response, ChatMoved("moved", "-100"), POLICY, now_ms=NOW)
    assert (verdict.dead, verdict.deliver_after) == (False, NOW)
    assert column(conn, "SELECT platform_id FROM responses ORDER BY id") == ["-100", "-100", "2"]
    assert column(conn, "SELECT platform_id FROM chats ORDER BY id") == ["-100", "2"]
    assert responses.heads(conn, "telegram", now_ms=NOW) == [first, other]
    assert second > first


def test_a_chat_that_is_gone_becomes_inactive_and_no_other(conn):
    gone, _ = answer(conn, chat="1"), answer(conn, chat="2")
    response = take(conn, gone)
    with transaction(conn):
        verdict = deliveries.fail(conn, response, ChatGone("blocked by the user"), POLICY, now_ms=NOW)
    assert (verdict.dead, verdict.reason) == (True, "blocked by the user")
    assert column(conn, "SELECT status FROM chats ORDER BY id") == ["inactive", "active"]


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


def test_a_reason_shows_no_secret_whatever_adapter_gave_it(conn):
    redaction.register("secret-of-an-adapter")
    for error in (PermanentError("at secret-of-an-adapter"), NotSent("at secret-of-an-adapter")):
        assert failed(conn, error)["last_error"] == "at ***"
    assert "secret-of-an-adapter" not in str(dump(conn))
    response = take(conn)
    with transaction(conn):
        pauses.hold(conn, response, TokenRefused("at secret-of-an-adapter"), now_ms=NOW)
    assert channel_pauses.every(conn)["telegram"].reason == "at ***"


def limited(conn, id_, at):
    """The platform asks for a wait at that instant; the row afterwards."""
    claimed = take(conn, id_, now_ms=at)
    with transaction(conn):
        deliveries.fail(conn, claimed, RateLimited("429"), POLICY, now_ms=at)
    return row(conn, "responses", id_)


def test_a_platform_that_asks_for_waits_for_ever_is_given_up_after_a_day(conn):
    id_ = answer(conn)
    for at in (NOW, NOW + 1000, *range(NOW + DAY // 6, NOW + DAY, DAY // 6)):
        found = limited(conn, id_, at)
        assert (found["status"], found["retry_count"], found["deliver_after"]) == ("pending", 0, at + 1000)
    found = limited(conn, id_, NOW + DAY)
    assert (found["status"], found["failure"]) == ("dead", "rate_limited")
    assert found["last_error"] == "429; given up after 24 hours of waits that the platform asked for"


def test_a_machine_that_slept_for_days_bears_another_wait_that_the_platform_asks_for(conn):
    """Nothing was tried meanwhile; so it is too where the channel was paused."""
    id_ = answer(conn)
    limited(conn, id_, NOW)
    found = limited(conn, id_, NOW + 2 * DAY)
    assert (found["status"], found["deliver_after"]) == ("pending", NOW + 2 * DAY + 1000)
    assert found["unsent_since"] == NOW + 2 * DAY
