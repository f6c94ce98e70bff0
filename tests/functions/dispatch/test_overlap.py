"""A turn that lost its lease (the machine slept, its clock jumped) runs on until its next renewal."""

import asyncio

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import transaction
from shared.db.queue import ready_sessions
from shared.queue import turns
from shared.queue.turns import RetryPolicy
from tests.support import NOW, column, make_agent, put


def rescue(conn):
    """A rescue, as the sweep does it when all leases seem to have run out."""
    policy = RetryPolicy(max_attempts=5, base_ms=1, cap_ms=1, jitter=0.0)
    with transaction(conn):
        assert turns.rescue(conn, policy, now_ms=clock.now_ms() - 1000, everything=True)


def test_a_rescued_turn_that_still_runs_keeps_its_session_busy(conn):
    put(conn, "!slow 30")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        rescue(conn)
        await service.claim_and_start()
        beside = service.worker.running
        await service.close()
        return beside

    assert asyncio.run(go()) == 1


def test_a_rescued_turn_that_still_runs_counts_for_its_agents_concurrency(conn):
    put(conn, "!slow 30", chat="1")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        rescue(conn)
        put(conn, "hello", chat="2")
        await service.claim_and_start()
        beside = service.worker.running
        await service.close()
        return beside

    assert asyncio.run(go()) == 1


def test_the_session_continues_when_the_rescued_turn_ends(conn, until, monkeypatch):
    monkeypatch.setenv("POSTROOM_LEASE_MS", "1000")
    put(conn, "!slow 1.5 done")

    async def go():
        service = Dispatch(Settings.load())
        service.worker.begin()
        await until(lambda: column(conn, "SELECT status FROM messages") == ["processing"])
        rescue(conn)
        await until(lambda: column(conn, "SELECT status FROM messages") == ["completed"])
        await service.close()

    asyncio.run(go())
    assert column(conn, "SELECT message FROM responses") == ["done"]


def test_running_turns_count_whatever_the_rows_say(conn):
    make_agent(conn, "two", concurrency=2)
    for chat in "123":
        put(conn, agent="two", chat=chat)
    (first, second, _) = column(conn, "SELECT session_id FROM messages ORDER BY id")

    def ready(held):
        return [each.session_id for each in ready_sessions.find(conn, now_ms=NOW, held=held)]

    assert ready({}) == [first, second]
    assert ready({first: "two"}) == [second]
    assert ready({99: "two"}) == [first]
    assert ready({98: "two", 99: "two"}) == []
