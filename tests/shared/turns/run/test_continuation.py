"""When the continuation of a running turn is written, and when it is not."""

import asyncio

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.queue import sessions
from shared.queue import turns
from shared.queue.turns import RetryPolicy
from shared.turns.run.continuation import RunningContinuation
from tests.serving import environment
from tests.support import NOW, column, put, take

__all__ = ["environment"]

STORED = "SELECT continuation FROM sessions"


def written(stored, turn):
    """What *turn*, given a continuation, makes it write."""
    saved = []

    async def save(value):
        await asyncio.sleep(0)
        saved.append(value)

    async def go():
        async with RunningContinuation(stored, save) as continuation:
            await turn(continuation)

    asyncio.run(go())
    return saved


async def one(continuation):
    continuation.set("a")


async def two_at_once(continuation):
    continuation.set("a")
    continuation.set("b")


async def two_during_the_write(continuation):
    continuation.set("a")
    await asyncio.sleep(0)
    continuation.set("b")


async def the_same_again(continuation):
    continuation.set("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    continuation.set("a")


async def an_end_at_once(continuation):
    continuation.set("a")
    continuation.leave_to_settlement()


async def an_end_with_an_answer(continuation):
    continuation.set("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    continuation.leave_to_settlement()


async def none(_):
    pass


WRITES = {
    "the first one": (None, one, ["a"]),
    "the last of two": (None, two_at_once, ["b"]),
    "one that comes during a write, after it": (None, two_during_the_write, ["a", "b"]),
    "not one that the session has": ("a", one, []),
    "not one that is written already": (None, the_same_again, ["a"]),
    "nothing of a turn that ends at once": (None, an_end_at_once, []),
    "what was written before the answer": (None, an_end_with_an_answer, ["a"]),
    "nothing without one": (None, none, []),
}


@pytest.mark.parametrize(("stored", "turn", "expected"), WRITES.values(), ids=WRITES)
def test_a_running_turn_writes(stored, turn, expected):
    assert written(stored, turn) == expected


def test_a_turn_that_breaks_off_waits_for_the_write():
    """Its next attempt is to go on in the same conversation."""

    async def broken(continuation):
        continuation.set("a")
        raise LookupError

    saved = []

    async def save(value):
        await asyncio.sleep(0)
        saved.append(value)

    async def go():
        async with RunningContinuation(None, save) as continuation:
            await broken(continuation)

    with pytest.raises(LookupError):
        asyncio.run(go())
    assert saved == ["a"]


def test_a_turn_that_lost_its_claim_writes_no_continuation(conn):
    put(conn, "context", trigger=False)
    put(conn)
    claim = take(conn)
    with transaction(conn):
        assert sessions.save_continuation(conn, claim, "mine")
        turns.rescue(conn, RetryPolicy(5, 1, 1, 0.0), now_ms=NOW, everything=True)
    take(conn, token="another", now_ms=NOW + 1000)
    with transaction(conn):
        assert not sessions.save_continuation(conn, claim, "too late")
    assert column(conn, STORED) == ["mine"]


def test_a_continuation_that_can_not_be_written_costs_the_turn_nothing(conn):
    put(conn)
    claim = take(conn)
    rows(conn, "CREATE TRIGGER full BEFORE UPDATE ON sessions BEGIN SELECT raise(ABORT, 'full'); END")

    async def go():
        service = Dispatch(Settings.load())
        await service.runner._save_continuation(claim, "a")
        rows(conn, "DROP TRIGGER full")
        await service.runner._save_continuation(claim, "b")
        await service.close()

    asyncio.run(go())
    assert column(conn, STORED) == ["b"]
