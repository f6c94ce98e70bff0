"""How the batches of a sweep keep the write lock only for what needs it."""

import asyncio
import math
import threading

import apsw
import pytest

from functions import sweep
from functions.sweep import Sweep, Swept
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.write_ahead_log import WriteAheadLog
from shared.runtime.batch_size import Chore
from tests.support import NOW, column, put

DAY = 86_400_000
READS, BEGINS, DELETES = sweep._OF_MESSAGES.sql, "BEGIN IMMEDIATE", "DELETE FROM messages "


@pytest.fixture
def executed():
    """The statements of connections that open from now on, of those above: each with its values."""
    seen = []

    def trace(_, sql, values):
        if sql.startswith((READS, BEGINS, DELETES)):
            seen.append((sql, values))
        return True

    def watch(connection):
        connection.set_exec_trace(trace)

    apsw.connection_hooks.append(watch)
    yield seen
    apsw.connection_hooks.remove(watch)


def completed(conn, count):
    for _ in range(count):
        put(conn)
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'completed'")


def sweeps(*instants_ms):
    """The chore's number of rows when each sweep ended."""

    async def go():
        service = Sweep(Settings.load())
        try:
            found = []
            for now_ms in instants_ms:
                await service.once(now_ms=now_ms)
                found.append(service.sizes["pruned_messages"].rows)
            return found
        finally:
            await service.close()

    return asyncio.run(go())


def test_what_a_batch_deletes_is_read_before_it_has_the_lock(conn, executed):
    completed(conn, 61)
    executed.clear()
    sweeps(NOW + 2 * DAY)
    assert column(conn, "SELECT count(*) FROM messages") == [1]
    kinds = [sql[: len(DELETES)] for sql, _ in executed]
    deletes = [place for place in range(1, len(kinds)) if kinds[place] == DELETES != kinds[place - 1]]
    assert len(deletes) >= 2
    assert {tuple(sql for sql, _ in executed[place - 2 : place]) for place in deletes} == {(READS, BEGINS)}
    limits = [values[1] for sql, values in executed if sql == READS]
    places = [values[0] for sql, values in executed if sql == READS]
    assert limits[0] == 25
    assert places[0] == 0 < places[1] <= 25, "the next read goes on there; a slow disk makes batches smaller"


def test_a_batch_goes_on_where_nothing_can_be_read_ahead(conn, executed, capfd):
    completed(conn, 5)
    with transaction(conn):
        rows(conn, "ALTER TABLE messages RENAME COLUMN files TO papers")
    sweeps(NOW + 2 * DAY)
    assert "sweep.read_ahead_failed" in capfd.readouterr().out
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_each_sweep_begins_with_small_batches(conn):
    """A minute later, memory may have lost what the last sweep had there."""
    completed(conn, 400)
    first, second = sweeps(NOW + 2 * DAY, NOW + 2 * DAY + 60_000)
    assert second <= 25
    assert first >= second


def test_a_long_log_begins_again_although_writers_leave_no_gap(db, conn):
    """A commit came during each checkpoint; the last pages are moved while writers wait for a moment."""
    text = "INSERT INTO events (type, data, created_at) VALUES ('x', json_object('x', hex(zeroblob(:half))), 1)"
    reader = open_connection(db, readonly=True)
    with transaction(conn):
        rows(conn, text, {"half": 4000 * 2048})
    rows(reader, "BEGIN")
    rows(reader, "SELECT count(*) FROM events")
    conn.wal_checkpoint()
    with transaction(conn):
        rows(conn, text, {"half": 2048})
    reader.close()
    log = WriteAheadLog(db)
    assert not log.relieve()
    assert log.begins_again
    assert log.held.seconds > 0.0, "it counts among what the sweep held the lock for"
    assert not log.relieve()
    assert log.held.seconds == 0.0
    log.close()


def test_a_sweep_that_is_cut_off_ends_what_it_does_in_another_thread_before_it_closes():
    """A connection can't be closed while a thread uses it: the error would leave the writer open."""
    begun, may_end = threading.Event(), threading.Event()

    def pause():
        begun.set()
        return may_end.wait(60)

    def read(connection, *_):
        connection.create_scalar_function("pause", pause)
        rows(connection, "SELECT pause()")

    async def go():
        service = Sweep(Settings.load())
        chore = Chore(lambda *_: (0, None), read_ahead=read)
        cut_off = asyncio.create_task(service._run_chores(Swept(), {"slow": chore}, math.inf))
        await asyncio.to_thread(begun.wait, 60)
        cut_off.cancel()
        await asyncio.wait([cut_off])
        closing = asyncio.create_task(service.close())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not closing.done()
        may_end.set()
        await asyncio.wait_for(closing, 60)
        with pytest.raises(RuntimeError, match="the writer is closed"):
            await service.writer.run(lambda _: None)

    try:
        asyncio.run(go())
    finally:
        may_end.set()


def test_rows_of_a_clock_that_was_ahead_are_not_the_end_of_a_walk(conn):
    """They come before older ones. A step looks at a few rows, and must not take them for all."""
    completed(conn, 61)
    with transaction(conn):
        rows(
            conn,
            "UPDATE messages SET created_at = :later, updated_at = :later WHERE id <= 30",
            {"later": NOW + 9 * DAY},
        )
    sweeps(NOW + 2 * DAY)
    assert column(conn, "SELECT count(*) FROM messages") == [31]
