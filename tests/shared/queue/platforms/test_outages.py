"""Outages of a platform by literal clocks: how long they last, and what they cost."""

from dataclasses import replace

import pytest

from shared.core.errors import NotSent, PlatformDown
from shared.db.engine.connection import transaction
from shared.db.platforms import channel_outages
from shared.db.queue import responses
from shared.queue import deliveries
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.platforms import outages
from tests.support import NOW, answer, row

POLICY = DeliveryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
SECOND = 1000
HOUR = 3_600_000


def probe(conn, channel, error, *, now_ms):
    """One try of the channel with its next response, as deliver makes it; None: nothing is due."""
    outage = channel_outages.get(conn, channel)
    if outage is not None and outage.probe_at > now_ms:
        return None
    head = responses.trial(conn, channel, now_ms=now_ms)
    if head is None:
        return None
    with transaction(conn):
        response = responses.claim(conn, head, token="a", now_ms=now_ms, lease_ms=60_000)
        if error is None:
            deliveries.acknowledge(conn, response, ("1",), now_ms=now_ms)
            if outage is not None:
                channel_outages.end(conn, outage, now_ms=now_ms)
        else:
            deliveries.fail(conn, response, error, POLICY, now_ms=now_ms)
    return head


@pytest.mark.parametrize("channel", ["telegram", "discord"])
@pytest.mark.parametrize(
    ("error", "lasts_s"),
    [
        (NotSent("refused"), 60),
        (PlatformDown("502", may_have_arrived=True), 60),
        (PlatformDown("503"), 3600),
        (PlatformDown("no answer", "no_answer"), 60),
    ],
)
def test_an_outage_of_a_minute_or_an_hour_makes_no_answer_dead(conn, channel, error, lasts_s):
    for chat in "1234567":
        answer(conn, chat=chat, channel=channel)
    tried = [second for second in range(lasts_s) if probe(conn, channel, error, now_ms=NOW + second * SECOND)]
    assert 7 <= len(tried) <= 8 + lasts_s / 30  # by one response at a time, ever more rarely
    after = NOW + lasts_s * SECOND
    sent = {probe(conn, channel, None, now_ms=after + second * SECOND) for second in range(70)} - {None}
    assert len(sent) == 7
    assert {row(conn, "responses", id_)["status"] for id_ in sent} == {"acked"}
    assert {row(conn, "responses", id_)["retry_count"] for id_ in sent} == {0}


def test_the_pauses_between_probes_grow_to_a_minute(conn):
    policy = replace(POLICY, jitter=0.999_999)
    waits = []
    now_ms = NOW
    for _ in range(8):
        outage = outages.note(conn, "telegram", NotSent("refused"), "refused", policy, now_ms=now_ms)
        waits.append(round((outage.probe_at - now_ms) / SECOND))
        now_ms = outage.probe_at
    assert waits == [5, 5, 10, 20, 40, 60, 60, 60]


def test_a_machine_that_slept_begins_its_outage_anew(conn):
    first = outages.note(conn, "telegram", NotSent("refused"), "refused", POLICY, now_ms=NOW)
    awake = outages.note(conn, "telegram", NotSent("refused"), "refused", POLICY, now_ms=first.probe_at + 7 * HOUR)
    assert awake.began_at == first.probe_at + 7 * HOUR


def test_a_probe_that_failed_meanwhile_is_not_ended_by_an_older_one(conn):
    old = outages.note(conn, "telegram", NotSent("refused"), "refused", POLICY, now_ms=NOW)
    outages.note(conn, "telegram", NotSent("refused"), "refused", POLICY, now_ms=NOW + 5000)
    assert not channel_outages.end(conn, old, now_ms=NOW + 6000)
    assert channel_outages.get(conn, "telegram") is not None


def test_a_failure_counts_as_its_own_only_after_others_went_out(conn):
    id_ = answer(conn)
    with transaction(conn):
        response = responses.claim(conn, id_, token="a", now_ms=NOW, lease_ms=60_000)
    down = PlatformDown("500")
    failed_before = replace(response, unsent_since=NOW - 10)
    assert outages.own_failure(conn, failed_before, down) is down
    outage = outages.note(conn, "telegram", down, "500", POLICY, now_ms=NOW - 10)
    assert outages.own_failure(conn, failed_before, down) is down
    channel_outages.end(conn, outage, now_ms=NOW - 5)
    assert not isinstance(outages.own_failure(conn, failed_before, down), PlatformDown)
    assert outages.own_failure(conn, response, down) is down
    unsent = NotSent("refused")
    assert outages.own_failure(conn, failed_before, unsent) is unsent
