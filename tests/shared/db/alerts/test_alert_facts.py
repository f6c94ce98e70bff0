"""What alerts are about. ``test_growth`` holds that backlogs and history make it no dearer."""

import pytest

from shared.db.alerts import alert_facts, alerts, tellings
from shared.db.engine.connection import rows, transaction
from shared.db.queue import ready_sessions
from tests.support import NOW, answer, make_agent, plan, put

MINUTE = 60_000


def of(conn, now=NOW + 10 * MINUTE):
    return alert_facts.messages(conn, longest_ms=10 * MINUTE, now_ms=now)


def answers(conn, now=NOW + 10 * MINUTE):
    return alert_facts.answers(conn, ["telegram", "discord"], longest_ms=10 * MINUTE, now_ms=now)


def test_what_waits_too_long_is_counted_by_agent_and_conversation(conn):
    make_agent(conn, "coder")
    first = put(conn)
    put(conn)
    put(conn, chat="7", now_ms=NOW + MINUTE)
    late = put(conn, chat="8", agent="coder", now_ms=NOW + 9 * MINUTE)
    assert of(conn) == [("assistant", 1, NOW, first)]
    assert of(conn, NOW + 20 * MINUTE) == [("assistant", 2, NOW, first), ("coder", 1, NOW + 9 * MINUTE, late)]


def test_a_message_waits_from_the_instant_for_which_it_was_planned(conn):
    planned = put(conn, process_after=NOW + 60 * MINUTE)
    assert of(conn, NOW + 69 * MINUTE) == []
    assert of(conn, NOW + 70 * MINUTE) == [("assistant", 1, NOW + 60 * MINUTE, planned)]


@pytest.mark.parametrize(("wait", "is_stuck"), [(9, False), (10, True)])
def test_a_message_that_is_tried_again_only_after_such_a_wait_is_stuck(conn, wait, is_stuck):
    row = put(conn)
    failed = "UPDATE messages SET failure = 'rate_limited', process_after = :after, updated_at = :now WHERE id = :id"
    with transaction(conn):
        rows(conn, failed, {"after": NOW + (60 + wait) * MINUTE, "now": NOW + 60 * MINUTE, "id": row})
    assert of(conn, NOW + 60 * MINUTE) == ([("assistant", 1, NOW + 60 * MINUTE, row)] if is_stuck else [])


def test_answers_are_counted_by_channel_and_chat(conn):
    first = answer(conn)
    answer(conn, chat="7")
    answer(conn, chat="8", deliver_after=NOW + 60 * MINUTE)
    answer(conn, chat="9", channel="api")
    assert answers(conn, NOW + 9 * MINUTE) == []
    assert answers(conn) == [("telegram", 2, NOW, first)]
    with transaction(conn):
        rows(conn, "UPDATE chats SET status = 'inactive' WHERE platform_id = '7'")
    assert answers(conn) == [("telegram", 1, NOW, first)]


def test_dead_rows_are_counted_by_agent_and_cause_and_only_the_newest_thousand(conn):
    made = [put(conn, chat=str(number % 3), now_ms=NOW + number) for number in range(6)]
    for row in made:
        code = "crashed" if row == made[-1] else "error"
        with transaction(conn):
            rows(conn, "UPDATE messages SET status = 'dead', failure = :code WHERE id = :id", {"code": code, "id": row})
    assert alert_facts.dead_messages(conn) == [
        ("assistant", "crashed", 1, NOW + 5, NOW + 5),
        ("assistant", "error", 5, NOW, NOW + 4),
    ]


@pytest.mark.parametrize(
    ("sql", "scanned"),
    [
        (ready_sessions.READY_AGENTS, set()),
        (ready_sessions.FIRSTS, set()),
        (alert_facts.ANSWERS, set()),
        (alert_facts.DEAD_MESSAGES, {"SCAN messages USING INDEX messages_dead"}),
        (alert_facts.DEAD_ANSWERS, {"SCAN responses USING INDEX responses_unsent"}),
        (alert_facts.WAITING_POSTS, set()),
        (alerts.STANDING, {"SCAN alerts USING INDEX alerts_standing"}),
        (alerts.STANDS, set()),
        (alerts.LATELY_OVER, set()),
        (alerts.PRUNE, set()),
        (tellings.OF_ALERTS, set()),
        (tellings.SAID, set()),
    ],
)
def test_a_look_scans_no_table(conn, sql, scanned):
    """With 10 M rows a look costs what is open, and the newest thousand of what is dead."""
    given = dict.fromkeys(("agent", "now", "until", "before", "channel", "after", "limit", "route", "place", "key"), 1)
    found = plan(conn, sql, alerts="[]", ids="[]", **given)
    tables = ("messages", "responses", "r", "c", "alerts", "alert_tellings")
    assert {line for line in found if line.startswith(tuple(f"SCAN {table}" for table in tables))} == scanned
