"""What the report says about channels, in literal rows and words."""

import pytest

from spark_jobs.report.judgement import delivery
from spark_jobs.report.judgement.concern import Level
from tests.spark_jobs.report.samples import delivered, facts, volume


def said(rule, **rows):
    return [concern.what for concern in rule(facts(**rows))]


@pytest.mark.parametrize(("days", "level"), [(1, [Level.NEEDS_YOU]), (6, [Level.WATCH]), (7, [])])
def test_answers_that_did_not_arrive_are_counted_by_channel(days, level):
    rows = [delivered(days, "discord", 5, dead=2), delivered(days, "telegram", 5, dead=1)]
    found = list(delivery.dead_responses(facts(deliveries=rows)))
    assert [concern.level for concern in found] == level
    told = "3 answers could not be delivered in the last 7 days: 2 on discord and 1 on telegram."
    assert [concern.what for concern in found] == [told] * len(level)


def test_answers_that_were_retried_by_hand_since_are_not_counted():
    rows = [delivered(0, "discord", 5, dead=3, still_dead=0), delivered(1, "telegram", 5, dead=4, still_dead=1)]
    assert said(delivery.dead_responses, deliveries=rows[:1]) == []
    told = "1 answer could not be delivered in the last 7 days: 1 on telegram."
    assert said(delivery.dead_responses, deliveries=rows) == [told]


def test_unknown_outcomes_are_to_be_looked_at():
    (concern,) = delivery.unknown_outcomes(facts(deliveries=[delivered(2, "discord", 5, unknown=4)]))
    assert concern.level is Level.WATCH
    assert concern.what == ("Of 4 sends in the last 7 days it is unknown whether the platform showed it: 4 on discord.")


def test_a_channel_is_silent_that_was_busy():
    rows = [volume(days, "telegram", 10) for days in (8, 5, 4, 2)]
    assert said(delivery.silent_channels, message_volume=rows) == [
        "Channel telegram is silent: nothing has come since 7 Oct; before, 10 messages a day were usual."
    ]


@pytest.mark.parametrize(
    ("days", "why"),
    [
        ((8, 5, 4, 2, 1), "it was used yesterday"),
        ((8, 5, 4, 2, 0), "it was used today"),
        ((8, 5, 4), "it is used on few days"),
        ((7, 6, 5, 4, 3, 2), "yesterday's day of the week is silent every week"),
        ((), "it is unknown"),
    ],
)
def test_a_channel_is_not_silent_where(days, why):
    rows = [volume(each, "telegram", 10) for each in days]
    assert said(delivery.silent_channels, message_volume=rows) == [], why


@pytest.mark.parametrize("channel", ["internal", "schedule", "api"])
def test_only_platforms_are_expected_to_send_something(channel):
    rows = [volume(days, channel, 10) for days in (8, 5, 4, 2)]
    assert said(delivery.silent_channels, message_volume=rows) == []


def test_a_channel_is_slow_beside_its_own_past():
    usual = [delivered(days, "discord", 9, took=(1, 5000, 9)) for days in (2, 3, 4)]
    assert said(delivery.slow_channels, deliveries=[*usual, delivered(0, "discord", 9, took=(1, 31_000, 9))]) == [
        "Channel discord delivers slowly: on 9 Oct one answer in twenty took more than 31\u00a0s; 5\u00a0s is usual."
    ]
    assert said(delivery.slow_channels, deliveries=[*usual, delivered(0, "telegram", 9, took=(1, 31_000, 9))]) == []


@pytest.mark.parametrize(("now", "before", "rises"), [(10, 5, True), (10, 6, False), (9, 0, False), (10, 0, True)])
def test_retries_rise_that_are_twice_as_frequent(now, before, rises):
    rows = [delivered(8, "discord", 50, retries=before), delivered(0, "discord", 50, retries=now)]
    expected = (
        f"Channel discord refuses or loses more sends: {now} were tried again for 50 answers in the last 7 days, "
        f"{before} for 50 before."
    )
    assert said(delivery.rising_retries, deliveries=rows) == ([expected] if rises else [])
