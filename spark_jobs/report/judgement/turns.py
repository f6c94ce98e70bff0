"""Judges messages and their turns: dead, overdue, failing, slow, missed, going round in circles."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

from shared.conversation.access import health
from spark_jobs.report.facts import Facts, by, grouped, total
from spark_jobs.report.judgement.concern import Concern, Level, of_health
from spark_jobs.report.judgement.usual import is_fresh, slower
from spark_jobs.report.words import HOUR_MS, argument, day, name, number, plural, span

OVERDUE_MS = HOUR_MS
LEAST_FAILURES = 10
LEAST_BACKLOG = 10
LOOP = 50
"""So many messages of one agent in one conversation and day are rarely meant."""


def paused_agents(facts: Facts) -> Iterator[Concern]:
    """Agents that Postroom had paused at the mart's position; an operator's own pause is as that operator wants it."""
    for row in facts.whole.get("agent_pauses", ()):
        if row["state"] == "paused" and row["paused_by"] == "postroom":
            yield of_health(health.paused(row["agent"], row["code"], row.get("reason")), "backlog")


def dead_messages(facts: Facts) -> Iterator[Concern]:
    """Messages of this week that have no answer and get none."""
    rows = [row for row in facts.week("failures") if row["dead"]]
    dead = total(rows, "dead")
    if not dead:
        return
    causes = ", ".join(f"{number(count)} {name(cause)}" for cause, count in by(rows, "failure", "dead").items())
    agents = by(rows, "agent", "dead")
    share = "Most were" if len(agents) > 1 else "It was" if dead == 1 else "All were"
    yield Concern(
        Level.NEEDS_YOU if any(is_fresh(facts, row) for row in rows) else Level.WATCH,
        f"{plural(dead, 'message')} of the last 7 days {'is' if dead == 1 else 'are'} dead, without an answer "
        f"({causes}). {share} for agent {name(next(iter(agents)))}.",
        "Read the reasons, fix the cause, then retry or discard them.",
        "emulator messages list",
        "failures",
    )


def overdue_messages(facts: Facts) -> Iterator[Concern]:
    """Open messages that wait although they are due; a turn that runs is not overdue."""
    rows = [row for row in facts.all("backlog") if row["ended"] is None and row["messages"] > row["running"]]
    late = [row for row in rows if row["due_at"] + HOUR_MS + OVERDUE_MS <= facts.at_ms]  # due_at begins an hour
    if not late:
        return
    count = sum(row["messages"] - row["running"] for row in late)
    oldest = min(late, key=lambda row: row["due_at"])
    yield Concern(
        Level.NEEDS_YOU,
        f"{plural(count, 'message')} {'has' if count == 1 else 'have'} been due for more than an hour and no turn has "
        f"taken {'it' if count == 1 else 'them'}; the oldest, for agent {name(oldest['agent'])}, for "
        f"{span(facts.at_ms - oldest['due_at'])}.",
        "See whether an agent is paused, a turn is stuck, or dispatch does not run.",
        "emulator queue",
        "backlog",
    )


def open_at_end(facts: Facts, end: date) -> int:
    """How many messages waited or ran at the end of a day, without those planned for later."""
    after = datetime.combine(end + timedelta(days=1), time(), UTC).timestamp() * 1000
    limit = min(after, facts.at_ms + 1)
    rows = [row for row in facts.all("backlog") if row["day"] <= end and row["due_at"] < limit]
    return sum(row["messages"] for row in rows if row["ended"] is None or row["ended"] > end)


def growing_backlog(facts: Facts) -> Iterator[Concern]:
    """The number of open messages has risen day by day. Where the mart lacks rows, earlier days have fewer."""
    if not facts.is_complete(facts.back(3)):
        return
    past = [open_at_end(facts, facts.back(days)) for days in (3, 2, 1, 0)]
    rises = all(earlier < later for earlier, later in pairwise(past))
    if past[-1] < LEAST_BACKLOG or not rises or past[-1] < 2 * past[0]:
        return
    yield Concern(
        Level.WATCH,
        f"The backlog grows: {number(past[-1])} messages are open, {number(past[0])} were three days ago, "
        "and each day ended with more than the one before.",
        "Allow more turns at a time (concurrency of the agent, POSTROOM_MAX_CONCURRENT_TURNS), or find what is slow.",
        "emulator queue",
        "backlog",
    )


def rising_failures(facts: Facts) -> Iterator[Concern]:
    """Attempts fail at least twice as often as in the week before."""
    week, before = facts.week("failures"), facts.week_before("failures")
    failed, messages = total(week, "failed_attempts"), total(week, "messages")
    earlier, of = total(before, "failed_attempts"), total(before, "messages")
    if failed < LEAST_FAILURES or not of or failed * of < 2 * earlier * messages:
        return
    causes = by([row for row in week if row["failure"] != "none"], "failure", "failed_attempts")
    cause = f" The cause now met most: {name(next(iter(causes)))}." if causes else ""
    agent = next(iter(by(week, "agent", "failed_attempts")))
    yield Concern(
        Level.WATCH,
        f"Attempts fail more often: {number(failed)} failed for {plural(messages, 'message')} in the last 7 days, "
        f"{number(earlier)} for {number(of)} in the 7 days before. Most are of agent {name(agent)}.{cause}",
        "Most failures are tried again by themselves. Look at the agent's program, its model and its limits.",
        "emulator status",
        "failures",
    )


def slow_agents(facts: Facts) -> Iterator[Concern]:
    """Waits or turns of an agent take three times as long as they did."""
    for agent, rows in grouped(facts.days("turn_times_of_days", 14), "agent"):
        for what, column, counted in (("wait", "wait_p95_ms", "waited"), ("run", "turn_p95_ms", "turns")):
            if slow := slower(facts, rows, column, counted):
                on, now_ms, usual_ms = slow
                subject = "Messages to agent" if what == "wait" else "Turns of agent"
                yield Concern(
                    Level.WATCH,
                    f"{subject} {name(agent)} {what} longer: on {day(on)} one in twenty took more than {span(now_ms)}; "
                    f"{span(usual_ms)} is usual.",
                    "See what its turns do, and how many run at a time."
                    if what == "wait"
                    else "See whether its model or one of its tools has become slow.",
                    "emulator queue" if what == "wait" else f"emulator usage {argument(agent)} --turns",
                    "times",
                )


def schedules_off(facts: Facts) -> Iterator[Concern]:
    """Runs of schedules that were missed or doubled this week."""
    rows = facts.week("schedules")
    for column, what, then in (
        ("missed", "missed", "After a downtime, runs are left out on purpose; otherwise check the sweep."),
        ("doubled", "begun twice", "Each occurrence should begin once: keep the database, and report this."),
    ):
        count = total(rows, column)
        if count:
            series = by(rows, "series_id", column)
            most = next(iter(series))
            part = "all" if series[most] == count else f"{number(series[most])} of them"
            yield Concern(
                Level.WATCH,
                f"In the last 7 days {plural(count, 'run')} of schedules {'was' if count == 1 else 'were'} {what}, "
                f"{part} of {name(most)}.",
                then,
                f"emulator schedules show {argument(most)}",
                "schedules",
            )


def loops(facts: Facts) -> Iterator[Concern]:
    """Agents that wrote to each other without an end, in pairs or in circles of three and more."""
    pairs = facts.week("agent_pairs")  # what an earlier release of the job wrote tells of no circles
    turning = [row for row in pairs if row["back_and_forth"] or row.get("circles")]
    rows = [row for row in turning if (row["longest"] or 0) >= LOOP]
    if not rows:
        return
    worst = max(rows, key=lambda row: row["longest"])
    yield Concern(
        Level.WATCH,
        f"Agents may repeat themselves in a loop: on {day(worst['day'])} agent {name(worst['from_agent'])} wrote "
        f"{number(worst['longest'])} messages to {name(worst['agent'])} in one conversation.",
        "Read the conversation, and tell the agents when to stop.",
        section="agents",
    )
