"""A clock that is set back makes no wait longer than its row asked for."""

import pytest

from shared.core.errors import PermanentError, PlatformDown, RateLimited, RetryableError, TokenRefused
from shared.db.access import albums
from shared.db.engine.connection import rows, scalar, transaction
from shared.db.queue import dead_responses
from shared.db.roster import accounts, agent_pauses
from shared.queue import deliveries, turns, waits
from shared.queue.platforms import pauses
from shared.queue.turns import Failure, RetryPolicy
from shared.queue.waits import SLACK_MS, WAITS
from tests.shared.queue.test_deliveries import POLICY
from tests.shared.queue.test_deliveries import take as send
from tests.support import LEASE, NOW, answer, make_agent, plan, put, take

HOUR = 3_600_000
RETRIES = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=1.0)


def retry(conn):
    put(conn)
    turns.fail(conn, take(conn), Failure("it broke"), RETRIES, now_ms=NOW)


def wait(conn):
    put(conn)
    turns.fail(conn, take(conn), Failure("busy", wait_ms=7000), RETRIES, now_ms=NOW)


def fail_send(conn, error):
    response = send(conn)
    with transaction(conn):
        deliveries.fail(conn, response, error, POLICY, now_ms=NOW)


def retry_by_hand(conn):
    fail_send(conn, PermanentError("403"))
    with transaction(conn):
        dead_responses.retry(conn, 1, now_ms=NOW)


def album(conn):
    of = {"channel": "telegram", "platform_id": "100", "group_key": "g", "sender_id": "5"}
    piece = {"event_key": "1", "platform_message_id": "1", "event": "{}"}
    with transaction(conn):
        albums.add(conn, **of, **piece, most=10, due_ms=NOW + 1500, now_ms=NOW)


def refuse_token(conn):
    with transaction(conn):
        pauses.pause(conn, "telegram", TokenRefused("401"), now_ms=NOW)


def pause_agent(conn, **until):
    make_agent(conn, "busy")
    with transaction(conn):
        agent_pauses.pause(conn, "busy", "quota", "used up", now_ms=NOW, **until)


def use_up_again(conn):
    """Its first wait was longer."""
    make_agent(conn, "busy")
    with transaction(conn):
        agent_pauses.pause(conn, "busy", "quota", "used up", until=NOW - HOUR, now_ms=NOW - 9 * HOUR)
        agent_pauses.try_again(conn, "busy", now_ms=NOW - HOUR)
        agent_pauses.pause(conn, "busy", "quota", "used up", until=NOW + 9000, now_ms=NOW)


def make_bot(conn):
    with transaction(conn):
        rows(
            conn,
            """
            INSERT INTO accounts (name, platform, status, bot_id, manager, created_at, updated_at)
            VALUES ('telegram.own', 'telegram', 'given', '7', 'telegram', :now, :now)
            """,
            {"now": NOW},
        )
        accounts.postpone(conn, "telegram.own", "503", retry_at=NOW + accounts.LONGEST_RETRY_WAIT_MS)


# What begins the wait at NOW, where it stands, and how long it is at most once the clock was set back.
CASES = {
    "a retry of a turn": (retry, "messages.process_after", 5000),
    "a wait that a provider asked for": (wait, "messages.process_after", 7000),
    "a turn whose process is gone": (lambda conn: put(conn) and take(conn), "messages.lease", LEASE),
    "its context": (lambda conn: put(conn, trigger=False) and put(conn) and take(conn), "messages.lease", LEASE),
    "a retry of a send": (lambda conn: fail_send(conn, RetryableError("reset")), "responses.deliver_after", 2500),
    "an answer that is retried by hand": (retry_by_hand, "responses.deliver_after", 0),
    "a wait that a platform asked for": (
        lambda conn: fail_send(conn, RateLimited("429", 3000)),
        "responses.deliver_after",
        3000,
    ),
    "a chat that is to be silent": (lambda conn: fail_send(conn, RateLimited("429", 3000)), "chats.not_before", 3000),
    "a send whose process is gone": (send, "responses.lease", LEASE),
    "an album": (album, "albums.due_at", 1500),
    "a platform that can't be reached": (
        lambda conn: fail_send(conn, PlatformDown("502")),
        "channel_outages.probe_at",
        60_000,
    ),
    "a token that is refused": (refuse_token, "channel_pauses.check_at", 600_000),
    "an agent that can't work": (pause_agent, "agent_pauses.check_at", HOUR),
    "a quota that is used up": (lambda conn: pause_agent(conn, until=NOW + 9000), "agent_pauses.until", 9000),
    "a quota that is used up again": (use_up_again, "agent_pauses.until", 9000),
    "a bot that can't be set up": (make_bot, "accounts.retry_at", HOUR),
}
BEGINNINGS = pytest.mark.parametrize(("begin", "where", "longest_ms"), CASES.values(), ids=CASES)


def until(conn, where):
    table, _, column = where.partition(".")
    return scalar(conn, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")


def bound(conn, now_ms, limit=500):
    found = waits.count(conn, lease_ms=LEASE, now_ms=now_ms)
    with transaction(conn):
        assert waits.bound(conn, lease_ms=LEASE, now_ms=now_ms, limit=limit) == min(found, limit)
    return found


@BEGINNINGS
def test_a_wait_is_as_long_as_it_was_asked_for_however_often_the_clock_is_set_back(conn, begin, where, longest_ms):
    begin(conn)
    now = NOW
    for back_ms in (2 * HOUR, 2 * SLACK_MS + HOUR, 20 * 365 * 24 * HOUR):
        now -= back_ms
        assert bound(conn, now) >= 1
        assert until(conn, where) == now + longest_ms
        assert bound(conn, now) == 0


@BEGINNINGS
def test_a_wait_stays_where_the_clock_went_on_or_back_by_less_than_a_minute(conn, begin, where, longest_ms):
    begin(conn)
    before = until(conn, where)
    assert [bound(conn, NOW + ago_ms) for ago_ms in (0, 1, HOUR, -SLACK_MS)] == [0] * 4
    assert until(conn, where) == before


def test_every_wait_is_tested():
    assert {f"{wait.table}.{wait.until}" for wait in WAITS} == {where for _, where, _ in CASES.values()}


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: f"{wait.table}.{wait.until} {wait.waiting}")
def test_no_wait_is_looked_for_among_rows_that_have_ended_or_wait_for_nothing(conn, wait):
    """Each sweep looks, also beside ten million rows. The other tables have a row for each agent or account."""
    steps = plan(conn, wait.found, lease=LEASE, now=NOW, limit=-1)
    large = ("messages", "responses", "chats", "albums")
    assert [step for step in steps if step.startswith("SCAN ") and " INDEX " not in step and wait.table in large] == []


def test_answers_that_clients_have_not_fetched_are_not_looked_at(conn):
    """They have no instant, and are as many as clients leave there."""
    (found,) = [each.found for each in WAITS if each.until == "deliver_after"]
    assert "INDEX responses_delayed" in plan(conn, found, lease=LEASE, now=NOW, limit=-1)[0]


def test_what_somebody_planned_stays(conn):
    put(conn, "later", process_after=NOW + 24 * HOUR)
    answer(conn, "later", deliver_after=NOW + 24 * HOUR)
    make_agent(conn, "poor")
    with transaction(conn):
        agent_pauses.pause(conn, "poor", "budget", "used up", until=NOW + 24 * HOUR, now_ms=NOW)
    assert bound(conn, NOW - HOUR) == 0


def test_a_batch_moves_no_more_rows_than_it_may(conn):
    for chat in "12345":
        put(conn, chat=chat)
        turns.fail(conn, take(conn, chat=chat), Failure("it broke"), RETRIES, now_ms=NOW)
    assert [bound(conn, NOW - HOUR, limit=2) for _ in range(4)] == [5, 3, 1, 0]
