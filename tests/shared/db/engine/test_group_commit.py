import asyncio
import threading
from functools import partial

import apsw
import pytest

from shared.db.engine import group_commit, meta
from shared.db.engine.connection import HeldTime, open_connection, rows, scalar, transaction
from shared.db.engine.group_commit import Writer
from tests.support import column


@pytest.fixture
def writer(db):
    writer = Writer(db)
    yield writer
    writer.close()


def put(key, value="x"):
    return lambda conn: meta.put(conn, key, value)


def run(*coroutines):
    """Await all works at once; their results and errors in order."""

    async def gather():
        return await asyncio.gather(*coroutines, return_exceptions=True)

    return asyncio.run(gather())


class Stopped:
    """Holds the writing thread inside a job, so that later work piles up."""

    def __init__(self):
        self.go, self.begun = threading.Event(), threading.Event()

    def __call__(self, conn):
        self.begun.set()
        assert self.go.wait(60)


def pile_up(writer, works, ask=None, **options):
    """Run all *works* in one group, behind a job that holds the thread until they are waiting."""
    ask = ask or partial(writer.run, **options)

    async def gather():
        stopped = Stopped()
        first = asyncio.create_task(writer.run(stopped))
        await asyncio.to_thread(stopped.begun.wait, 60)
        asked = [asyncio.ensure_future(ask(work)) for work in works]
        await asyncio.sleep(0)
        stopped.go.set()
        await first
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(gather())


def test_rows_are_visible_to_others_when_run_returns(writer, conn):
    assert run(writer.run(lambda own: (meta.put(own, "a", "1"), 42)[1])) == [42]
    assert meta.get(conn, "a") == "1"


def test_work_that_arrives_together_shares_a_commit(writer, conn):
    commits = []

    def counted(own):
        own.set_commit_hook(lambda: bool(commits.append(1)))
        meta.put(own, "first", "x")

    run(writer.run(counted))
    before = len(commits)
    pile_up(writer, [put(f"k{number}") for number in range(64)])
    assert len(commits) - before == 2  # the one that held the thread has nothing to write; at most one more
    assert column(conn, "SELECT count(*) FROM meta WHERE key GLOB 'k*'") == [64]


def test_work_of_one_turn_of_the_loop_shares_a_commit(writer):
    """The first one must not wake the idle thread at once: each would pay for its own commit."""

    async def first(begun):
        await writer.run(lambda _: begun.set())

    async def second(begun):
        is_apart = begun.wait(0.05)
        await writer.run(lambda _: None)
        return is_apart

    def is_apart():
        begun = threading.Event()
        return run(first(begun), second(begun))[1]

    assert not all(is_apart() for _ in range(20))  # it may not have come to rest yet, and takes the first as it comes


def test_work_of_a_loop_is_not_left_waiting_for_another_loop(writer, conn):
    """The first loop has asked and does not yield; a caller in a second loop is served all the same."""

    async def go():
        asked = asyncio.ensure_future(writer.run(put("first")))
        await asyncio.sleep(0)
        other = threading.Thread(target=run, args=(writer.run(put("second")),))
        other.start()
        other.join(10)
        assert meta.get(conn, "second") == "x"
        await asked

    asyncio.run(go())
    assert meta.get(conn, "first") == "x"


def test_failing_work_leaves_nothing_and_its_neighbours_alone(writer, conn):
    def bad(own):
        meta.put(own, "bad", "x")
        raise LookupError("bad")

    results = pile_up(writer, [put("a"), bad, put("b")])
    assert [type(result) for result in results] == [type(None), LookupError, type(None)]
    assert [meta.get(conn, key) for key in ("a", "bad", "b")] == ["x", None, "x"]


def test_failing_work_that_is_alone_leaves_nothing_too(writer, conn):
    def bad(own):
        meta.put(own, "bad", "x")
        raise LookupError("bad")

    assert [type(result) for result in run(writer.run(bad))] == [LookupError]
    assert meta.get(conn, "bad") is None


def test_only_durable_work_waits_for_the_disk(writer):
    def synchronous(own):
        return scalar(own, "PRAGMA synchronous")

    assert run(writer.run(synchronous)) == [2]
    assert run(writer.run(synchronous, durable=False)) == [1]
    assert run(writer.run(synchronous)) == [2]


def test_a_group_with_one_durable_job_is_durable(writer):
    async def gather():
        stopped = Stopped()
        first = asyncio.create_task(writer.run(stopped, durable=False))
        await asyncio.to_thread(stopped.begun.wait, 60)
        asked = [
            asyncio.create_task(writer.run(lambda own: scalar(own, "PRAGMA synchronous"), durable=durable))
            for durable in (False, True)
        ]
        await asyncio.sleep(0)
        stopped.go.set()
        await first
        return await asyncio.gather(*asked)

    assert asyncio.run(gather()) == [2, 2]


def test_close_finishes_waiting_work_and_refuses_more(db, conn):
    async def go():
        writer = Writer(db)
        asked = [asyncio.create_task(writer.run(put(f"k{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        await asyncio.gather(*asked)
        with pytest.raises(RuntimeError, match="closed"):
            await writer.run(put("late"))

    asyncio.run(go())
    assert column(conn, "SELECT count(*) FROM meta WHERE key GLOB 'k*'") == [20]


def test_work_is_done_although_its_caller_was_cancelled(writer, conn):
    async def go():
        stopped = Stopped()
        first = asyncio.create_task(writer.run(stopped))
        await asyncio.to_thread(stopped.begun.wait, 60)
        gone = asyncio.create_task(writer.run(put("gone")))
        await asyncio.sleep(0)
        gone.cancel()
        stopped.go.set()
        await first
        await writer.run(put("next"))

    asyncio.run(go())
    assert meta.get(conn, "gone") == "x"


def big(own):
    rows(own, "INSERT INTO meta (key, value) VALUES (hex(randomblob(8)), hex(randomblob(100000)))")


def limit(pages):
    return lambda own: rows(own, f"PRAGMA max_page_count = {pages}") and None


def test_a_full_disk_fails_only_the_work_at_hand(writer, conn):
    run(writer.run(limit(1)))  # SQLite takes the present size
    results = pile_up(writer, [put("small"), big, big])
    assert [type(result) for result in results] == [apsw.FullError] * 3
    assert meta.get(conn, "small") is None
    run(writer.run(limit(1_000_000)))
    assert run(writer.run(big), writer.run(put("after"))) == [None, None]
    assert meta.get(conn, "after") == "x"


def test_a_transaction_that_sqlite_ends_fails_for_the_whole_group(writer, conn):
    """On some errors SQLite rolls back everything, the neighbours' work too; their callers must get an error."""

    def give_up(own):
        rows(own, "ROLLBACK")
        raise apsw.IOError("disk I/O error")

    results = pile_up(writer, [put("before"), give_up, put("behind")])
    assert [type(result) for result in results] == [apsw.IOError] * 3
    assert meta.get(conn, "before") is None
    assert meta.get(conn, "behind") is None
    assert run(writer.run(put("later"))) == [None]


def test_work_that_failed_by_itself_keeps_its_own_error_when_its_group_fails(writer):
    """Its caller is to learn what is wrong with the work: a 4xx, and no reason to try again."""

    def wrong(own):
        raise LookupError("wrong")

    def give_up(own):
        rows(own, "ROLLBACK")
        raise apsw.IOError("disk I/O error")

    results = pile_up(writer, [wrong, put("between"), give_up])
    assert [type(result) for result in results] == [LookupError, apsw.IOError, apsw.IOError]


def test_the_writer_knows_how_long_it_had_the_write_lock(db):
    instants = iter([10.0, 10.25, 20.0, 20.5])
    writer = Writer(db, clock_s=lambda: next(instants))
    assert run(writer.run(put("a"))) == [None]
    assert writer.held.seconds == 0.25

    def bad(_):
        raise LookupError("bad")

    run(writer.run(bad))
    assert writer.held.seconds == 0.5
    writer.close()


def test_a_transaction_that_did_not_get_the_lock_had_it_for_no_time(db, other):
    instants = iter([10.0, 10.25])
    held = HeldTime(lambda: next(instants))
    conn = open_connection(db)
    with transaction(conn, held=held):
        pass
    conn.set_busy_handler(None)
    rows(other, "BEGIN IMMEDIATE")
    with pytest.raises(apsw.BusyError), transaction(conn, held=held):
        pass
    rows(other, "ROLLBACK")
    assert held.seconds == 0.0
    conn.close()


def test_a_database_that_can_not_be_opened_fails_the_work(tmp_path, fresh_database):
    folder = tmp_path / "later"
    writer = Writer(folder / "p.db")
    (error,) = run(asyncio.wait_for(writer.run(put("a")), 60))
    assert isinstance(error, apsw.CantOpenError)
    folder.mkdir()
    (folder / "p.db").write_bytes(fresh_database.read_bytes())
    assert run(asyncio.wait_for(writer.run(put("a")), 60)) == [None]
    writer.close()


def test_the_event_loop_runs_while_the_database_is_locked(writer, conn):
    async def go():
        with transaction(conn):
            asked = asyncio.create_task(writer.run(put("a")))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not asked.done()
        await asyncio.wait_for(asked, 60)

    asyncio.run(go())
    assert meta.get(conn, "a") == "x"


def test_a_stop_iteration_leaves_no_caller_waiting(writer, conn):
    """No future takes a StopIteration; the callers behind it in the group would never get an answer."""

    def exhausted(own):
        meta.put(own, "half", "x")
        return next(iter(()))

    results = pile_up(writer, [put("before"), exhausted, put("behind")])
    assert [type(result) for result in results] == [type(None), RuntimeError, type(None)]
    assert [meta.get(conn, key) for key in ("before", "half", "behind")] == ["x", None, "x"]


def test_a_rollback_that_fails_does_not_end_all_writing(writer, conn):
    def deny(operation, what, *_):
        is_rollback = operation == apsw.SQLITE_TRANSACTION and what == "ROLLBACK"
        return apsw.SQLITE_DENY if is_rollback else apsw.SQLITE_OK

    def bad(own):
        own.authorizer = deny
        meta.put(own, "bad", "x")
        raise LookupError("bad")

    (error,) = run(writer.run(bad))
    assert isinstance(error, apsw.AuthError)
    assert run(writer.run(put("after")), writer.run(lambda own: scalar(own, "PRAGMA synchronous"))) == [None, 2]
    assert [meta.get(conn, key) for key in ("bad", "after")] == [None, "x"]


def test_a_writer_takes_its_turns_when_its_driver_says_so(db, conn, monkeypatch):
    """The thread is one driver; with another, nothing is done before a turn, and all that waits then is one commit."""

    class ByHand:
        wakes = 0

        def __init__(self, writer):
            self.writer = writer

        def wake(self):
            self.wakes += 1

        def end(self):
            while self.writer.turn():
                pass

    monkeypatch.setattr(group_commit, "_drive", group_commit._drive)
    drivers = []
    group_commit.drive_by(lambda writer: drivers.append(ByHand(writer)) or drivers[0])
    writer = Writer(db)

    async def go():
        asked = [asyncio.ensure_future(writer.run(put(key))) for key in ("a", "b")]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (drivers[0].wakes, meta.get(conn, "a")) == (1, None)
        assert (writer.turn(), writer.turn()) == (True, False)
        assert await asyncio.wait_for(asyncio.gather(*asked), 60) == [None, None]
        late = asyncio.ensure_future(writer.run(put("c")))
        await asyncio.sleep(0)
        writer.close()
        await asyncio.wait_for(late, 60)

    asyncio.run(go())
    assert [meta.get(conn, key) for key in ("a", "b", "c")] == ["x", "x", "x"]
