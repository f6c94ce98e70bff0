"""Judges channels: answers that did not arrive or may not have, slow platforms, silence."""

from collections.abc import Iterator
from statistics import median

from shared.channels import registry
from spark_jobs.report.facts import Facts, Row, by, grouped, total
from spark_jobs.report.judgement.concern import Concern, Level
from spark_jobs.report.judgement.usual import is_fresh, slower
from spark_jobs.report.words import day, listed, name, number, plural, span

LEAST_RETRIES = 10
BUSY_DAYS = 4
"""A channel is expected to be used that was so on so many of the 7 days before."""


def dead_responses(facts: Facts) -> Iterator[Concern]:
    """Answers that were never delivered: dead, and not retried or deleted by hand since."""
    rows = [row for row in facts.week("deliveries") if row["still_dead"]]
    dead = total(rows, "still_dead")
    if not dead:
        return
    yield Concern(
        Level.NEEDS_YOU if any(is_fresh(facts, row) for row in rows) else Level.WATCH,
        f"{plural(dead, 'answer')} could not be delivered in the last 7 days: {_by_channel(rows, 'still_dead')}.",
        "Read what the platform said, fix it, then retry or discard them.",
        "emulator responses list",
        "deliveries",
    )


def unknown_outcomes(facts: Facts) -> Iterator[Concern]:
    """Sends of which nobody knows whether they arrived."""
    rows = [row for row in facts.week("deliveries") if row["unknown_outcomes"]]
    count = total(rows, "unknown_outcomes")
    if not count:
        return
    yield Concern(
        Level.WATCH,
        f"Of {plural(count, 'send')} in the last 7 days it is unknown whether the platform showed it: "
        f"{_by_channel(rows, 'unknown_outcomes')}.",
        "POSTROOM_UNKNOWN_SENDS decides whether such a send is repeated or held. Held ones are dead responses.",
        "emulator responses list",
        "deliveries",
    )


def silent_channels(facts: Facts) -> Iterator[Concern]:
    """Platforms' channels without a message since yesterday, where some usually come, also on that day of the week."""
    for channel, rows in grouped(facts.all("message_volume"), "channel"):
        received = by(rows, "day", "received")
        earlier = [facts.back(days) for days in range(2, 9)]
        before = [received.get(each, 0) for each in earlier]
        usual = [received.get(each, 0) for each in earlier if facts.is_complete(each)]
        same_weekday = received.get(facts.back(8), 0)
        is_silent = (
            registry.is_adapted(channel) and not received.get(facts.back(0), 0) and not received.get(facts.back(1), 0)
        )
        if is_silent and same_weekday and sum(map(bool, before)) >= BUSY_DAYS:
            last = max(at for at, count in received.items() if count)
            yield Concern(
                Level.NEEDS_YOU,
                f"Channel {name(channel)} is silent: nothing has come since {day(last)}"
                + (f"; before, {number(median(usual))} messages a day were usual." if usual else "."),
                "See whether its webhook is registered and the platform reaches this Postroom.",
                "emulator status",
                "volume",
            )


def slow_channels(facts: Facts) -> Iterator[Concern]:
    """Deliveries that take three times as long as they did."""
    for channel, rows in grouped(facts.days("deliveries", 14), "channel"):
        if slow := slower(facts, rows, "delivery_p95_ms", "delivered"):
            on, now_ms, usual_ms = slow
            yield Concern(
                Level.WATCH,
                f"Channel {name(channel)} delivers slowly: on {day(on)} one answer in twenty took more than "
                f"{span(now_ms)}; {span(usual_ms)} is usual.",
                "See whether the platform has an outage or asks for waits.",
                "emulator status",
                "deliveries",
            )


def rising_retries(facts: Facts) -> Iterator[Concern]:
    """Deliveries are tried again at least twice as often as in the week before."""
    for channel, rows in grouped(facts.week("deliveries"), "channel"):
        earlier = [row for row in facts.week_before("deliveries") if row["channel"] == channel]
        retries, sent = total(rows, "retries"), total(rows, "delivered") + total(rows, "dead")
        before, sent_before = total(earlier, "retries"), total(earlier, "delivered") + total(earlier, "dead")
        if retries >= LEAST_RETRIES and sent_before and retries * sent_before >= 2 * before * max(sent, 1):
            yield Concern(
                Level.WATCH,
                f"Channel {name(channel)} refuses or loses more sends: {number(retries)} were tried again for "
                f"{plural(sent, 'answer')} in the last 7 days, {number(before)} for {number(sent_before)} before.",
                "See whether the platform has an outage or asks for waits.",
                "emulator status",
                "deliveries",
            )


def _by_channel(rows: list[Row], column: str) -> str:
    return listed([f"{number(count)} on {name(channel)}" for channel, count in by(rows, "channel", column).items()])
