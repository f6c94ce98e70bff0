"""One idea of health: what stops the work, and what needs a person while it goes on."""

from pathlib import Path

import pytest

from shared.channels.base import Registration
from shared.conversation.access import channel_watch, health
from shared.conversation.access.health import Health
from shared.core.policy import AccessPolicy
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_pauses
from shared.db.roster import agent_pauses
from shared.db.spending import budgets, usage
from shared.db.spending.usage import Tokens, TurnName
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy
from tests.support import NOW, make_chat, make_owner, put, take

MB = 1024 * 1024
ASK = AccessPolicy("ask")
DB = Path("/data/p.db")


def of(conn, policy=ASK):
    return health.of(conn, Path(conn.filename), policy, timezone="UTC", now_ms=NOW)


def test_a_postroom_with_an_owner_is_well(conn):
    make_owner(conn)
    assert of(conn) == Health([], [])


def test_without_an_owner_the_first_message_of_a_new_chat_would_vanish(conn):
    assert of(conn) == Health([], []), "only clients of the API write, and no owner is asked about them"
    with transaction(conn):
        channel_watch.note(conn, "telegram", Registration(True, "https://bot.example"), now_ms=NOW)
    (sentence,) = of(conn).needs
    assert sentence.startswith("nobody is an owner, so nobody is asked about a new chat, and its messages are dropped.")
    assert "emulator pair" in sentence
    assert of(conn, AccessPolicy("wire")) == of(conn, AccessPolicy("refuse")) == Health([], [])


@pytest.mark.parametrize(
    ("free", "stops", "needs"),
    [(0, 1, 0), (16 * MB - 1, 1, 0), (16 * MB, 0, 1), (100 * MB - 1, 0, 1), (100 * MB, 0, 0)],
)
def test_a_full_disk_stops_the_work_and_a_nearly_full_one_needs_a_person(free, stops, needs):
    found = health.of_disk(DB, free)
    assert (len(found.stops), len(found.needs)) == (stops, needs)
    assert all(f"{free // MB} MB are free on the disk of /data/p.db: " in each for each in found.stops + found.needs)


def test_who_wrote_on_a_platform_is_enough_to_need_an_owner(conn):
    make_chat(conn, "7", channel="api")
    assert of(conn) == Health([], [])
    make_chat(conn, "7")
    assert of(conn).needs[0].startswith("nobody is an owner, ")


@pytest.mark.parametrize(
    ("durability", "stops"), [("local", False), ("replicated", True), ("local,telegram=replicated", True)]
)
def test_a_replica_that_is_behind_stops_the_work_where_messages_wait_for_it(durability, stops):
    found = health.of_replica("bucket not found", durability)
    (sentence,) = found.stops if stops else found.needs
    assert sum(map(len, found)) == 1
    assert sentence.startswith("replication is behind: bucket not found")
    assert (f"POSTROOM_DURABILITY={durability} is refused" in sentence) is stops


def test_a_used_up_budget_needs_a_person(conn):
    make_owner(conn)
    with transaction(conn):
        budgets.put(conn, "assistant", "day", "tokens", 10, now_ms=NOW)
        usage.add(conn, TurnName("turn_1", "assistant", "session_1"), "m", "key", Tokens(9), None, now_ms=NOW)
    assert of(conn) == Health([], [])
    with transaction(conn):
        usage.add(conn, TurnName("turn_2", "assistant", "session_1"), "m", "key", Tokens(1), None, now_ms=NOW)
    (sentence,) = of(conn).needs
    assert sentence.startswith("the budget in tokens of assistant for this day is used up, so messages wait")
    assert sentence.endswith("To give more: emulator budgets set day --agent assistant --tokens NUMBER")


def test_an_agent_that_waits_for_its_budget_is_no_second_need(conn):
    make_owner(conn)
    with transaction(conn):
        budgets.put(conn, "assistant", "day", "tokens", 0, now_ms=NOW)
        agent_pauses.pause(conn, "assistant", "budget", "It is used up.", until=NOW + 9, now_ms=NOW)
    (sentence,) = of(conn).needs
    assert sentence.startswith("the budget in tokens of assistant")


def test_what_is_dead_needs_a_person_and_what_nobody_fetched_does_not(conn):
    make_owner(conn)
    put(conn, "hello")
    claim = take(conn)
    with transaction(conn):
        turns.fail(conn, claim, Failure("bad", retryable=False), RetryPolicy(5, 1, 1, 0.0), now_ms=NOW)
    assert "1 message is dead: emulator messages list" in of(conn).needs
    rows(conn, "UPDATE responses SET status = 'dead', failure = 'not_fetched'")
    assert not any("could not be sent" in each for each in of(conn).needs)
    rows(conn, "UPDATE responses SET failure = 'error'")
    assert "1 response could not be sent: emulator responses list" in of(conn).needs


def test_a_paused_channel_or_agent_needs_a_person_and_an_operators_pause_does_not(conn):
    make_owner(conn)
    with transaction(conn):
        channel_pauses.pause(conn, "telegram", "Telegram 401", check_at=NOW, now_ms=NOW)
        agent_pauses.pause(conn, "assistant", "auth", "401: expired", now_ms=NOW)
    channel, agent = of(conn).needs
    assert channel.startswith("telegram is paused, and its answers wait: Telegram 401. ")
    assert agent.startswith("agent assistant is paused (auth), and its messages wait: 401: expired. ")


def test_an_agent_that_an_operator_paused_needs_somebody_when_messages_wait_for_it(conn):
    make_owner(conn)
    with transaction(conn):
        agent_pauses.pause_by_hand(conn, "assistant", "for the night", now_ms=NOW)
    assert of(conn).needs == []
    put(conn)
    assert of(conn).needs == [
        "agent assistant is paused by hand, and 1 message waits for it. To resume it: emulator agents resume assistant"
    ]
