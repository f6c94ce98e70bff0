"""What the report says about messages and turns, in literal rows and words."""

import pytest

from spark_jobs.report.judgement import turns
from spark_jobs.report.judgement.concern import Level
from tests.spark_jobs.report.samples import (
    HOUR_MS,
    NOON,
    back,
    cost,
    facts,
    failed,
    ms,
    pair,
    pause,
    scheduled,
    times,
    waiting,
)


def said(rule, **rows):
    return [concern.what for concern in rule(facts(**rows))]


def test_an_agent_that_postroom_paused_needs_a_person_in_the_words_of_the_status():
    rows = [
        pause("coder"),
        pause("planner", None, code="quota"),
        pause("support", "holiday", code="by_hand", by="operator"),
        pause("helper", state="trying"),
    ]
    found = list(turns.paused_agents(facts(whole={"agent_pauses": rows})))
    assert {concern.level for concern in found} == {Level.NEEDS_YOU}
    assert [(concern.what, concern.then, concern.command) for concern in found] == [
        (
            "Agent coder is paused (auth), and its messages wait: 401: expired.",
            "When it is fixed:",
            "emulator agents resume coder",
        ),
        (
            "Agent planner is paused (quota), and its messages wait.",
            "When it is fixed:",
            "emulator agents resume planner",
        ),
    ]


def test_a_reason_that_a_program_wrote_is_cut_and_its_marks_are_shown():
    rows = [pause("coder", "\u202e" + 1000 * "W")]
    (concern,) = turns.paused_agents(facts(whole={"agent_pauses": rows}))
    assert "\u202e" not in concern.what
    assert "\\u202eWWW" in concern.what
    assert len(concern.what) < 320


def test_dead_messages_are_counted_by_cause_and_agent():
    rows = [failed(0, "coder", "killed", 5, 20, dead=3), failed(6, "support", "auth", 2, 2, dead=1)]
    (concern,) = turns.dead_messages(facts(failures=rows))
    assert concern.what == (
        "4 messages of the last 7 days are dead, without an answer (3 killed, 1 auth). Most were for agent coder."
    )
    assert (concern.level, concern.command) == (Level.NEEDS_YOU, "emulator messages list")
    assert said(turns.dead_messages, failures=rows[:1])[0].endswith("(3 killed). All were for agent coder.")
    assert said(turns.dead_messages, failures=rows[1:])[0].endswith("(1 auth). It was for agent support.")


@pytest.mark.parametrize(("days", "level"), [(1, [Level.NEEDS_YOU]), (2, [Level.WATCH]), (6, [Level.WATCH]), (7, [])])
def test_dead_messages_of_today_and_yesterday_are_wrong_and_those_of_the_week_are_to_be_looked_at(days, level):
    rows = [failed(days, "coder", "killed", 1, 5, dead=1)]
    assert [concern.level for concern in turns.dead_messages(facts(failures=rows))] == level


def test_a_failed_attempt_that_was_answered_later_is_no_dead_message():
    assert said(turns.dead_messages, failures=[failed(0, "coder", "none", 9, 3)]) == []


def test_messages_are_overdue_when_they_were_due_an_hour_ago_and_no_turn_runs():
    rows = [
        waiting(0, "coder", NOON - 5 * HOUR_MS, 4, running=1),
        waiting(0, "support", NOON - 2 * HOUR_MS, 2),
        waiting(0, "support", NOON - HOUR_MS, 9),
        waiting(3, "support", NOON + HOUR_MS, 1),
        waiting(3, "support", NOON - 72 * HOUR_MS, 6, ended=3),
    ]
    assert said(turns.overdue_messages, backlog=rows) == [
        "5 messages have been due for more than an hour and no turn has taken them; "
        "the oldest, for agent coder, for 5\u00a0h."
    ]


def test_a_turn_that_runs_for_hours_is_not_overdue():
    assert said(turns.overdue_messages, backlog=[waiting(0, "coder", NOON - 5 * HOUR_MS, 2, running=2)]) == []


def test_what_was_open_at_the_end_of_a_day_had_come_and_was_due_and_had_not_ended():
    rows = [
        waiting(3, "a", ms(back(3)), 5, ended=3),
        waiting(3, "a", ms(back(3)), 7, ended=1),
        waiting(2, "a", ms(back(2)), 2, ended=0),
        waiting(2, "a", ms(back(0)), 11, ended=0),
        waiting(0, "a", NOON - HOUR_MS, 4),
        waiting(0, "a", NOON + HOUR_MS, 40),
    ]
    at = facts(backlog=rows)
    assert [turns.open_at_end(at, back(days)) for days in (4, 3, 2, 1, 0)] == [0, 7, 9, 2, 4]


@pytest.mark.parametrize(
    ("added", "grows"), [((4, 3, 2, 3), True), ((9, 3, 0, 3), False), ((1, 1, 1, 6), False), ((8, 1, 1, 2), False)]
)
def test_a_backlog_grows_that_has_doubled_and_risen_every_day(added, grows):
    rows = [waiting(days, "a", ms(back(days)), n) for days, n in zip((3, 2, 1, 0), added, strict=True)]
    expected = [
        f"The backlog grows: {sum(added)} messages are open, {added[0]} were three days ago, "
        "and each day ended with more than the one before."
    ]
    assert said(turns.growing_backlog, backlog=rows) == (expected if grows else [])


@pytest.mark.parametrize(("now", "before", "rises"), [(20, 10, True), (19, 10, False), (9, 1, False), (10, 0, True)])
def test_failures_rise_that_are_twice_as_frequent_as_the_week_before(now, before, rises):
    rows = [failed(8, "coder", "none", 100, before), failed(0, "coder", "killed", 100, now)]
    expected = (
        f"Attempts fail more often: {now} failed for 100 messages in the last 7 days, {before} for 100 in the 7 days "
        "before. Most are of agent coder. The cause now met most: killed."
    )
    assert said(turns.rising_failures, failures=rows) == ([expected] if rises else [])


def test_failures_do_not_rise_that_grow_with_the_messages():
    rows = [failed(8, "coder", "none", 100, 10), failed(0, "coder", "none", 400, 40)]
    assert said(turns.rising_failures, failures=rows) == []


def test_without_a_week_before_nothing_rises():
    assert said(turns.rising_failures, failures=[failed(0, "coder", "killed", 100, 90)]) == []


@pytest.mark.parametrize(
    ("p95", "expected"),
    [
        (
            90_000,
            [
                "Messages to agent coder wait longer: on 8 Oct one in twenty took more than 90\u00a0s; "
                "2\u00a0s is usual."
            ],
        ),
        (29_999, []),
    ],
)
def test_an_agent_is_slow_whose_messages_wait_three_times_as_long_and_at_least_half_a_minute(p95, expected):
    usual = [times(days, "coder", wait=(100, 2000, 3000)) for days in (2, 3, 4)]
    assert said(turns.slow_agents, turn_times_of_days=[*usual, times(1, "coder", wait=(100, p95, p95))]) == expected


@pytest.mark.parametrize(("p95", "is_slow"), [(36_000, True), (35_999, False)])
def test_three_times_the_usual_is_slow(p95, is_slow):
    usual = [times(days, "coder", wait=(1, 12_000, 3)) for days in (2, 3, 4)]
    found = said(turns.slow_agents, turn_times_of_days=[*usual, times(0, "coder", wait=(1, p95, 3))])
    assert bool(found) is is_slow


def test_a_turn_is_slow_beside_its_own_past_only():
    usual = [times(days, "coder", turn=(1, 40_000, 3)) for days in (2, 3, 4)]
    slow = times(0, "coder", turn=(1, 120_000, 3))
    assert said(turns.slow_agents, turn_times_of_days=[*usual, slow]) == [
        "Turns of agent coder run longer: on 9 Oct one in twenty took more than 2\u00a0min; 40\u00a0s is usual."
    ]
    assert said(turns.slow_agents, turn_times_of_days=[*usual[:2], slow]) == []
    few = times(0, "coder", turn=(1, 120_000, 3), count=4)
    assert said(turns.slow_agents, turn_times_of_days=[*usual, few]) == []


def test_missed_and_doubled_runs_of_schedules_are_told_apart():
    rows = [
        scheduled(0, "s1", 4, missed=2),
        scheduled(3, "s2", 4, missed=3, doubled=1),
        scheduled(7, "s3", 1, missed=9),
    ]
    assert said(turns.schedules_off, schedules=rows) == [
        "In the last 7 days 5 runs of schedules were missed, 3 of them of s2.",
        "In the last 7 days 1 run of schedules was begun twice, all of s2.",
    ]


def test_a_loop_goes_back_and_forth_and_is_long():
    rows = [pair(1, "a", "b", 60, longest=50), pair(1, "b", "c", 60, longest=49), pair(1, "c", "a", 99, longest=99)]
    rows[2]["back_and_forth"] = 0
    assert said(turns.loops, agent_pairs=rows) == [
        "Agents may repeat themselves in a loop: on 8 Oct agent a wrote 50 messages to b in one conversation."
    ]
    circle = [row | {"back_and_forth": 0, "circles": 1} for row in rows]
    assert said(turns.loops, agent_pairs=circle) == [
        "Agents may repeat themselves in a loop: on 8 Oct agent c wrote 99 messages to a in one conversation."
    ]


@pytest.mark.parametrize(
    "rule", [turns.dead_messages, turns.overdue_messages, turns.growing_backlog, turns.rising_failures,
             turns.slow_agents, turns.schedules_off, turns.loops]
)  # fmt: skip
def test_nothing_is_said_of_nothing(rule):
    assert said(rule) == []
    assert said(rule, costs=[cost(0, "coder", 5)]) == []
