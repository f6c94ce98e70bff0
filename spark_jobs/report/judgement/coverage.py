"""Judges the report itself: whether it shows the present, and all of it."""

from collections.abc import Iterator

from spark_jobs.report.facts import WEEK_DAYS, Facts
from spark_jobs.report.judgement.concern import Concern, Level
from spark_jobs.report.words import DAY_MS, day, instant, listed, name, span

STALE_MS = DAY_MS
SHOWN_DAYS = 30


def stale(facts: Facts) -> Iterator[Concern]:
    """What the page shows is old."""
    if facts.now_ms - facts.at_ms > STALE_MS:
        yield Concern(
            Level.WATCH,
            f"This page was made {span(facts.now_ms - facts.at_ms)} after the state that it shows, "
            f"which is of {instant(facts.at_ms)}.",
            "Publish the replica again. If its last position is that old, nothing is written or nothing is replicated.",
            "emulator status",
        )


def restored(facts: Facts) -> Iterator[Concern]:
    """The replica has begun a new history this week, by a restore or by a full copy under a new prefix."""
    fresh = [each for each in facts.restored_ms if each > facts.at_ms - WEEK_DAYS * DAY_MS]
    if fresh:
        yield Concern(
            Level.WATCH,
            f"The replica has begun a new history, and rows from {instant(max(fresh))} on were read again.",
            "A drill or a full copy begins one, and loses nothing. After a restore the last commits before that may be "
            "lost; docs/replication.md says which.",
        )


def absent(facts: Facts) -> Iterator[Concern]:
    """Parts of the page that this mart can't fill."""
    if facts.absent:
        lacking = listed([f"{job} (no {name(what, 80)})" for job, what in facts.absent.items()])
        yield Concern(
            Level.WATCH,
            f"This mart has not all that the page needs. It lacks: {lacking}.",
            "The replica was of an earlier release. Publish again once the database has migrated.",
        )


def incomplete(facts: Facts) -> Iterator[Concern]:
    """Rows were pruned before a run of ``publish`` could read them, in the days that the page shows."""
    whole = facts.complete_from
    if whole is not None and whole > facts.back(SHOWN_DAYS):
        yield Concern(
            Level.WATCH,
            f"This mart is incomplete before {day(whole)}: the database had pruned rows that no run had read.",
            "Earlier days look quieter than they were, so nothing is compared with them. Publish every few hours.",
        )
