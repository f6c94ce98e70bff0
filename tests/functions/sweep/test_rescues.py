"""Turns and sends whose process is gone, and the tick."""

import asyncio

import apsw
import pytest

from functions import recurrence, sweep
from functions.deliver import Deliver
from functions.dispatch import Dispatch
from shared.agents.access import PermissionAsked
from shared.conversation.access import permission_requests
from shared.core.errors import ClaimLost
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, ready_sessions, responses
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from shared.roster import alert_routes
from shared.runtime.kick import Listener
from tests.functions.sweep.kit import DAY, done, sweep_at
from tests.support import LEASE, NOW, TICK, answer, column, dump, make_agent, make_chat, make_owner, put, take


def test_a_sweep_rescues_turns_and_sends_whose_process_is_gone(conn):
    put(conn)
    take(conn)
    sent = answer(conn)
    with transaction(conn):
        responses.claim(conn, sent, token="send_a", now_ms=NOW, lease_ms=LEASE)
    assert done(sweep_at(NOW + LEASE)) == {}
    assert done(sweep_at(NOW + LEASE + 1)) == {"rescued_turns": 1, "rescued_sends": 1}
    assert column(conn, "SELECT status FROM messages UNION ALL SELECT status FROM responses") == ["pending", "pending"]
    assert done(sweep_at(NOW + LEASE + 2)) == {}


def test_a_clock_that_is_set_back_lengthens_the_wait_of_no_retry_and_no_rescue(conn, environment):
    make_agent(conn, "lost")
    put(conn, chat="lost", agent="lost")
    put(conn, chat="failed")
    take(conn, chat="lost", agent="lost")
    turns.fail(conn, take(conn, chat="failed"), Failure("it broke"), RetryPolicy(5, 5000, 300_000, 1.0), now_ms=NOW)
    now, lease_ms = NOW - DAY, Settings.load().lease_ms
    listener = Listener(environment, "dispatch")
    assert done(sweep_at(now)) == {"bounded_waits": 2}
    listener._socket.setblocking(False)
    assert listener._socket.recv(16) == b"k"
    listener.close()
    assert ready_sessions.find(conn, now_ms=now + 4999) == []
    assert [each.agent for each in ready_sessions.find(conn, now_ms=now + 5000)] == ["assistant"]
    assert done(sweep_at(now + lease_ms)) == {}
    assert done(sweep_at(now + lease_ms + 1)) == {"rescued_turns": 1}


def test_a_lease_lasts_ten_minutes_without_renewal():
    assert Settings.load().lease_ms == 600_000


def test_a_renewed_lease_survives_and_an_expired_one_is_rescued_once(conn):
    put(conn, chat="renewed")
    put(conn, chat="silent")
    renewed, silent = take(conn, chat="renewed", token="turn_a"), take(conn, chat="silent", token="turn_b")
    with transaction(conn):
        claims.renew(conn, renewed, lease_until=NOW + 2 * LEASE)
    for now in (NOW + LEASE + 1, NOW + LEASE + 2, NOW + 2 * LEASE):
        sweep_at(now)
    assert rows(conn, "SELECT status, retry_count, claimed_by FROM messages ORDER BY id") == [
        ("processing", 0, "turn_a"),
        ("pending", 0, None),
    ]
    assert column(conn, "SELECT count(*) FROM events WHERE type = 'message_retry'") == [1]
    before = dump(conn)
    verbs = {
        "settle": lambda: turns.settle(
            conn, silent, [TurnReply("late", silent.asked[0])], None, now_ms=NOW + 2 * LEASE
        ),
        "renew": lambda: claims.renew(conn, silent, lease_until=NOW + 3 * LEASE),
    }
    for verb in verbs.values():
        with pytest.raises(ClaimLost), transaction(conn):
            verb()
    assert dump(conn) == before


def test_a_rescued_turn_is_fenced_even_when_another_turn_has_the_message(conn):
    put(conn)
    late = take(conn)
    sweep_at(NOW + LEASE + 1)
    again = take(conn, token="turn_b", now_ms=NOW + LEASE + 10_000)
    assert again is not None
    with pytest.raises(ClaimLost), transaction(conn):
        turns.settle(conn, late, [TurnReply("late", late.asked[0])], None, now_ms=NOW + LEASE + 10_001)
    with transaction(conn):
        turns.settle(conn, again, [TurnReply("in time", again.asked[0])], None, now_ms=NOW + LEASE + 10_002)
    assert column(conn, "SELECT message FROM responses") == ["in time"]


@pytest.mark.parametrize("worker", [Dispatch, Deliver], ids=["dispatch", "deliver"])
def test_a_new_dispatch_rescues_the_turns_of_a_dead_one_at_once(conn, worker):
    """It holds the worker lock, so no other process has a turn; it does not wait for the lease."""
    put(conn)
    take(conn)
    sent = answer(conn)
    with transaction(conn):
        responses.claim(conn, sent, token="send_a", now_ms=NOW, lease_ms=LEASE)
        rows(conn, "UPDATE messages SET lease = :far WHERE lease IS NOT NULL", {"far": 2 * NOW})
        rows(conn, "UPDATE responses SET lease = :far WHERE lease IS NOT NULL", {"far": 2 * NOW})

    async def go():
        service = worker(Settings.load())
        try:
            await service.repair()
        finally:
            await service.close()

    asyncio.run(go())
    table, attempts = {Dispatch: ("messages", 0), Deliver: ("responses", 1)}[worker]
    assert rows(conn, f"SELECT status, retry_count, claimed_by FROM {table}") == [("pending", attempts, None)]


def test_rescued_messages_run_again_at_once(conn, environment):
    put(conn)
    take(conn)
    listener = Listener(environment, "dispatch")
    sweep_at(NOW + LEASE + 1)
    listener._socket.setblocking(False)
    assert listener._socket.recv(16) == b"k"
    listener.close()


def test_what_is_not_well_is_told_before_all_other_work(conn, environment):
    """A sweep with much to do may be cut off."""
    dead, ops = put(conn, chat="7"), make_chat(conn, "900")
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'dead', failure = 'crashed' WHERE id = :id", {"id": dead})
        alert_routes.save(conn, "ops", ops, {}, now_ms=NOW - 1)
    written = []

    def watch(connection):
        connection.set_update_hook(lambda kind, database, table, row: written.append(table))

    listener = Listener(environment, "deliver")
    apsw.connection_hooks.append(watch)
    try:
        sweep_at(NOW)
    finally:
        apsw.connection_hooks.remove(watch)
    assert written.index("alerts") < written.index("responses") < written.index("event_totals"), "of a chore"
    listener._socket.setblocking(False)
    assert listener._socket.recv(16) == b"k"
    listener.close()


@pytest.mark.parametrize("module", [sweep, recurrence], ids=["sweep", "recurrence"])
def test_a_tick_needs_the_secret_and_may_come_twice(serving, conn, module):
    async def go():
        async with serving(module) as client:
            refused = await client.post("/tick")
            return refused, *await asyncio.gather(*(client.post("/tick", headers=TICK) for _ in range(2)))

    refused, *answers = asyncio.run(go())
    assert refused.status_code == 401
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert 200 in {answer.status_code for answer in answers}


def test_a_sweep_ends_what_programs_asked_for_in_turns_that_are_over(conn):
    owner = make_owner(conn)
    put(conn)
    claim = take(conn)
    with transaction(conn):
        asked = permission_requests.ask(
            conn, claim, PermissionAsked("shell", {"command": "ls"}, "call"), expires_at=NOW + 9 * LEASE, now_ms=NOW
        )
    assert (asked.agent, owner) == ("assistant", 1)
    assert done(sweep_at(NOW + LEASE)) == {}
    assert done(sweep_at(NOW + LEASE + 1)) == {"rescued_turns": 1, "ended_prompts": 1}
    assert column(conn, "SELECT payload ->> 'withdrawn' FROM approvals") == ["its turn is over, and nothing was done"]
    assert done(sweep_at(NOW + LEASE + 2)) == {}
