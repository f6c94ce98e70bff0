"""Dispatch while the database takes no write, or a stop comes in between: nothing is lost or run twice."""

import asyncio
from contextlib import ExitStack

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages
from tests.functions.dispatch.working import SAID, STATUS, working
from tests.support import column, enqueue_all, make_agent, put, row


def test_a_stop_while_the_claim_waits_for_the_database_claims_nothing(conn, until):
    """Otherwise a turn that never starts would hold the messages until its lease runs out."""
    put(conn, "hello")

    async def go():
        service = Dispatch(Settings.load())
        service.worker.begin()
        await until(lambda: column(conn, STATUS) == ["completed"])
        await until(lambda: not service.worker.running)
        put(conn, "more")
        with ExitStack() as held:
            held.enter_context(transaction(conn))
            service.worker.wake()
            await asyncio.sleep(0.05)
            await service.worker.stop()
        service.writer.close()  # finishes its queued work
        service.reader.close()
        service.kicker.close()

    asyncio.run(go())
    assert column(conn, STATUS) == ["completed", "pending"]
    assert row(conn, "messages")["retry_count"] == 0


def test_many_arrivals_are_announced_without_a_tick(conn, until):
    count = 1201
    put(conn, "!slow 300")
    with transaction(conn):
        news = messages.NewMessage(sender="A", agent="assistant", session_id=1, trigger=False)
        enqueue_all(conn, [news] * (count - 1), now_ms=clock.now_ms())
    told = "SELECT count(*) FROM events WHERE type = 'message_received'"
    working(lambda _: until(lambda: column(conn, told) == [count]))


FULL = (
    "CREATE TRIGGER full BEFORE UPDATE ON messages WHEN NEW.status <> 'processing' BEGIN SELECT raise(ABORT, 'x'); END"
)


def test_a_turn_that_could_not_be_given_back_is_given_back_later(conn, until):
    """Otherwise its lease would hold the session for ten minutes."""
    put(conn, "!slow 0.3 done")

    async def deed(service):
        (running,) = await until(lambda: [each for each in service.running_turns.values() if each.is_interruptible])
        rows(conn, FULL)
        running.task.cancel()
        await until(lambda: not service.worker.running)
        assert column(conn, STATUS) == ["processing"]
        rows(conn, "DROP TRIGGER full")
        await until(lambda: column(conn, STATUS) == ["completed"])

    working(deed)
    assert row(conn, "messages")["retry_count"] == 0
    assert column(conn, SAID) == ["done"]


def test_a_turn_that_can_never_be_freed_blocks_no_other(conn, until):
    put(conn, "!slow 0.3 done")

    async def deed(service):
        (running,) = await until(lambda: [each for each in service.running_turns.values() if each.is_interruptible])
        rows(conn, FULL.replace("WHEN", "WHEN NEW.id = 1 AND"))
        running.task.cancel()
        await until(lambda: service.settlement.unwritten)
        make_agent(conn, "other")
        put(conn, "hello", agent="other")
        service.worker.wake()
        await until(lambda: column(conn, STATUS) == ["processing", "completed"])

    working(deed)


@pytest.mark.long
def test_a_settlement_that_cannot_be_written_costs_an_attempt_and_not_ten_minutes(conn, until):
    put(conn, "hello")
    rows(conn, FULL)

    async def deed(service):
        await until(lambda: service.settlement.unwritten)
        rows(conn, "DROP TRIGGER full")
        await until(lambda: column(conn, STATUS) == ["completed"])

    working(deed)
    assert row(conn, "messages")["retry_count"] == 1
    assert column(conn, SAID) == ["You said: hello"]
    (reason,) = column(conn, "SELECT data ->> 'reason' FROM events WHERE type = 'message_retry'")
    assert reason == "the outcome of the turn could not be written (ConstraintError); the log of dispatch says why"


def test_old_context_is_never_shown_again(conn, until):
    count = 1300
    put(conn, "first")
    with transaction(conn):
        news = messages.NewMessage(sender="A", agent="assistant", session_id=1, trigger=False)
        enqueue_all(conn, [news] * count, now_ms=clock.now_ms())
    put(conn, "hello")
    open_ = "SELECT count(*) FROM messages WHERE status <> 'completed'"
    working(lambda service: until(lambda: column(conn, open_) == [0] and not service.worker.running))
    assert column(conn, "SELECT count(*) FROM agent_messages WHERE role = 'user'") == [10]


def test_a_turn_cancelled_twice_is_given_back(conn):
    """An interrupt and a stop in the same instant: nothing else would free the messages."""
    put(conn, "!slow 300")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        (running,) = service.running_turns.values()
        while not running.is_interruptible:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        running.task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        await service.close()

    asyncio.run(go())
    assert rows(conn, "SELECT status, retry_count FROM messages") == [("pending", 0)]
