"""One message's end is no other's: after a turn of several that fails for good, and after a lost dispatch."""

import asyncio

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.db.engine import meta
from shared.db.engine.connection import rows, transaction
from shared.queue import turns
from shared.queue.turns import RetryPolicy
from tests.support import LEASE, NOW, put, row, take


def begins(conn, *, ends_well=False):
    """The suspicion and the attempts of the message after a dispatch has begun. It ends by a kill, or well."""

    async def go():
        service = Dispatch(Settings.load())
        try:
            await service.repair()
            mark = meta.get(conn, "dispatch_host")
        finally:
            await service.close()
        return mark

    mark = asyncio.run(go())
    if not ends_well:
        with transaction(conn):
            meta.put(conn, "dispatch_host", mark)
    found = row(conn, "messages")
    return found["suspicion"], found["retry_count"]


def test_a_dispatch_that_starts_in_the_place_of_another_suspects_what_ran(conn):
    put(conn)
    assert begins(conn) == (None, 0)
    seen = []
    for number in range(3):
        take(conn, now_ms=row(conn, "messages")["process_after"] or NOW, token=f"turn_{number}")
        seen.append(begins(conn))
    assert seen == [(10, 0), (20, 0), (30, 0)]
    assert row(conn, "messages")["process_after"] is not None


@pytest.mark.parametrize(("ends_well", "suspicion"), [(True, 30), (False, None)])
def test_a_kill_of_dispatch_while_a_suspect_waits_acquits_it_and_a_stop_does_not(conn, ends_well, suspicion):
    put(conn)
    begins(conn)
    for number in range(3):
        take(conn, token=f"turn_{number}")
        begins(conn, ends_well=ends_well and number == 2)
    assert begins(conn) == (suspicion, 0)
    assert (row(conn, "messages")["process_after"] is None) == (suspicion is None)


def test_a_loss_that_a_sweep_saw_first_acquits_nobody(conn):
    """The lease of a turn may run out before dispatch starts again: nothing runs then, and a suspect waits already."""
    put(conn)
    begins(conn)
    for number in range(2):
        take(conn, token=f"turn_{number}")
        begins(conn)
    began_ms = int(meta.get(conn, "dispatch_began_at"))
    take(conn, now_ms=began_ms, token="turn_2")
    with transaction(conn):
        turns.rescue(conn, RetryPolicy.of(Settings.load()), now_ms=began_ms + LEASE + 1)
    assert begins(conn) == (30, 0)
    assert row(conn, "messages")["process_after"] is not None


@pytest.mark.parametrize("key", ["epoch", "dispatch_host"])
def test_a_restored_database_or_another_host_speaks_against_no_message(conn, key):
    put(conn)
    begins(conn)
    for number in range(6):
        take(conn, token=f"turn_{number}")
        with transaction(conn):
            meta.put(conn, key, f"other_{number}")
        assert begins(conn) == (number + 1, 0)
    assert rows(conn, "SELECT status, failure FROM messages") == [("pending", "process_gone")]


def test_one_bad_message_does_not_take_its_neighbours_along(conn, to_the_end):
    for text in ("one", "!reject", "three"):
        put(conn, text)

    to_the_end()
    assert rows(conn, "SELECT message, status, retry_count FROM messages ORDER BY id") == [
        *(("one", "completed", 0), ("!reject", "dead", 1), ("three", "completed", 0))
    ]
    assert rows(conn, "SELECT original_message, message FROM responses ORDER BY id") == [
        *(("one", "You said: one"), ("!reject", turns.APOLOGY), ("three", "You said: three"))
    ]
