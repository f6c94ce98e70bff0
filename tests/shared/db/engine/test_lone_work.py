"""Work of a caller that is alone in its process: done in the event loop's thread, unless another writer is there."""

import asyncio
import threading

import apsw
import pytest

from shared.core.errors import ClaimLost
from shared.db.engine import meta
from shared.db.engine.connection import WouldWait, open_connection, rows, scalar, transaction
from shared.db.engine.group_commit import Writer
from tests.support import column


@pytest.fixture
def writer(db):
    writer = Writer(db, clock_s=Clock())  # the disk is never slow
    asyncio.run(writer.run(lambda _: None))  # the thread has opened its connection
    yield writer
    writer.close()


def put(key):
    return lambda own: (meta.put(own, key, "x"), threading.get_ident())[1]


def here(writer, work, **options):
    return asyncio.run(asyncio.wait_for(writer.run(work, alone=True, **options), 60))


def test_it_is_done_in_the_callers_thread_and_visible_to_others(writer, conn):
    assert here(writer, put("a")) == threading.get_ident()
    assert meta.get(conn, "a") == "x"


def test_before_the_thread_has_a_connection_the_thread_does_it(db, conn):
    writer = Writer(db, clock_s=Clock())
    assert here(writer, put("a")) != threading.get_ident()
    assert here(writer, put("b")) == threading.get_ident()
    writer.close()
    assert column(conn, "SELECT count(*) FROM meta WHERE key IN ('a', 'b')") == [2]


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_durable_work_waits_for_the_disk_there_too(writer, durable, level):
    assert here(writer, lambda own: scalar(own, "PRAGMA synchronous"), durable=durable) == level


def test_failing_work_leaves_nothing_and_the_next_one_works(writer, conn):
    def bad(own):
        meta.put(own, "bad", "x")
        raise ClaimLost("bad")

    with pytest.raises(ClaimLost):
        here(writer, bad)
    assert meta.get(conn, "bad") is None
    assert here(writer, put("next")) == threading.get_ident()


def test_a_rollback_that_fails_does_not_end_all_writing(writer, conn):
    def deny(operation, what, *_):
        is_rollback = operation == apsw.SQLITE_TRANSACTION and what == "ROLLBACK"
        return apsw.SQLITE_DENY if is_rollback else apsw.SQLITE_OK

    def bad(own):
        own.authorizer = deny
        meta.put(own, "bad", "x")
        raise LookupError("bad")

    with pytest.raises(apsw.Error):
        here(writer, bad)
    here(writer, put("next"))
    assert (meta.get(conn, "bad"), meta.get(conn, "next")) == (None, "x")


def runs_on_while_held(writer, held):
    """Whether the event loop runs on while *held* keeps writers out, and the work is done after that."""

    async def go():
        loop = asyncio.get_running_loop()
        with held:
            asked, began = asyncio.create_task(writer.run(put("a"), alone=True)), loop.time()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not asked.done()
            assert loop.time() - began < 5  # the busy handler waits for ten seconds
        return await asyncio.wait_for(asked, 60)

    return asyncio.run(go())


def test_the_event_loop_does_not_wait_for_a_writer_inside_the_gate(writer, conn):
    assert runs_on_while_held(writer, transaction(conn)) != threading.get_ident()
    assert meta.get(conn, "a") == "x"


class PastTheGate:
    """A writer as Litestream is one: it takes SQLite's lock and not the gate."""

    def __init__(self, conn):
        self._conn = conn

    def __enter__(self):
        rows(self._conn, "BEGIN IMMEDIATE")

    def __exit__(self, *_):
        rows(self._conn, "ROLLBACK")


def test_the_event_loop_does_not_wait_for_a_writer_past_the_gate(writer, conn):
    assert runs_on_while_held(writer, PastTheGate(conn)) != threading.get_ident()
    assert meta.get(conn, "a") == "x"
    assert here(writer, put("b")) == threading.get_ident()


def test_it_stays_behind_work_that_was_asked_for_before(writer, conn):
    def note(own):
        meta.put(own, "order", (meta.get(own, "order") or "") + "1")

    def then(own):
        meta.put(own, "order", (meta.get(own, "order") or "") + "2")

    async def go():
        first = asyncio.ensure_future(writer.run(note))
        await asyncio.sleep(0)
        await writer.run(then, alone=True)
        await first

    for _ in range(20):  # the thread may have begun with the first, or not
        asyncio.run(go())
    assert meta.get(conn, "order") == "12" * 20


def test_work_that_comes_meanwhile_is_done_after_it(writer, conn):
    """Another event loop's work can't use the connection at the same time, and is not forgotten."""
    other = threading.Thread(target=lambda: asyncio.run(writer.run(put("second"))))

    def first(own):
        meta.put(own, "first", "x")
        other.start()
        other.join(0.2)
        assert meta.get(own, "second") is None
        return threading.get_ident()

    assert here(writer, first) == threading.get_ident()
    other.join(60)
    assert column(conn, "SELECT count(*) FROM meta WHERE key IN ('first', 'second')") == [2]


def test_a_closed_writer_refuses_it(writer):
    writer.close()
    with pytest.raises(RuntimeError, match="closed"):
        here(writer, put("late"))


def test_a_transaction_that_may_not_wait_begins_nothing(db, conn):
    other_conn = open_connection(db)
    with transaction(other_conn), pytest.raises(WouldWait), transaction(conn, waits=False):
        pytest.fail("two writers at once")
    with transaction(conn, waits=False):
        meta.put(conn, "a", "x")
    with transaction(conn):  # the gate is free, and the busy handler is back
        meta.put(conn, "b", "x")
    assert column(other_conn, "SELECT count(*) FROM meta WHERE key IN ('a', 'b')") == [2]
    other_conn.close()


def test_while_the_log_is_long_the_thread_does_it(writer, conn):
    """Its commit may checkpoint the log, and then waits for readers."""
    fill = "INSERT INTO meta (key, value) VALUES ('long', hex(zeroblob(21000000)))"  # 10 000 pages
    rows(conn, "BEGIN")
    scalar(conn, "SELECT count(*) FROM meta")  # a reader: the log can't begin again
    here(writer, lambda own: rows(own, fill) and None)
    assert here(writer, put("a")) != threading.get_ident()
    rows(conn, "COMMIT")


def test_a_log_that_others_made_long_does_not_hold_up_the_event_loop(writer, conn, db):
    """The first commit that finds it long would move 40 MB or wait for Litestream. The thread does so, at the next."""
    other = open_connection(db)
    other.set_wal_hook(None)
    with transaction(other):
        rows(other, "INSERT INTO meta (key, value) VALUES ('long', hex(zeroblob(21000000)))")  # 10 000 pages
    assert here(writer, put("a")) == threading.get_ident()
    assert moved(conn) == 0
    assert here(writer, put("b")) != threading.get_ident()
    assert moved(conn) > 10_000
    other.close()


def moved(conn):
    """The pages of the log that are in the database."""
    return conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[1]


def test_while_the_disk_is_slow_the_thread_does_it(db):
    """Else each claim and each settlement stops health checks and all else in the event loop.

    A disk that stalls does so again: a quick commit in between says nothing of the next one.
    """
    clock = Clock()
    writer = Writer(db, clock_s=clock)
    here(writer, put("first"))  # in the thread, which opens the connection

    def takes(seconds):
        def work(own):
            clock.now_s += seconds
            return put("key")(own)

        return work

    assert here(writer, takes(0.2)) == threading.get_ident()
    for _ in range(3):
        assert here(writer, takes(0.001)) != threading.get_ident()
    clock.now_s += 119
    assert here(writer, takes(0.2)) != threading.get_ident()
    clock.now_s += 119
    assert here(writer, takes(0.001)) != threading.get_ident()
    clock.now_s += 2
    assert here(writer, takes(0.001)) == threading.get_ident(), "two minutes without a slow one"
    writer.close()


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s
