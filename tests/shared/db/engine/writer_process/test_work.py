"""The writer process does the work, in groups, and its answers and errors come back."""

import asyncio
import os
import signal
import socket
import threading

import apsw
import pytest

from shared.core.errors import DatabaseRefused
from shared.db.engine import meta
from shared.db.engine.connection import rows, scalar
from shared.db.engine.group_commit import Writer
from shared.db.engine.writer_process import RemoteWriter, WriterProcess
from tests.liveness import is_alive, opened
from tests.shared.db.engine.writer_process.running_writer import Setup, keys, note, run, submitted
from tests.wal import commits

LARGE = 3 << 20  # more than a socket takes at once


def synchronous(conn):
    return scalar(conn, "PRAGMA synchronous")


def fail(conn, kind):
    meta.put(conn, "failed", "x")
    if kind == "file":
        raise DatabaseRefused("p.db", "is damaged", "Restore it")
    if kind == "sqlite":
        rows(conn, "SELECT * FROM no_table")
    raise LookupError("bad")


def note_or_fail(conn, key):
    return fail(conn, "plain") if key == "bad" else note(conn, key)


def give_up(conn, key):
    if key == "end":
        rows(conn, "ROLLBACK")
        raise apsw.FullError("the disk is full")
    return note(conn, key)


def echo(conn, text):
    return text


def test_the_work_is_done_in_the_process_and_is_there_when_its_result_is(forked, db, conn):
    async def go():
        async with Setup(forked, db, note) as it:
            found = await it.remote.submit("k1")
            return found, keys(conn), it.pid

    found, seen, pid = run(go())
    assert found == ("k1", pid)
    assert pid != os.getpid()
    assert seen == ["k1"]


def test_the_work_is_on_the_disk(forked, db):
    async def go():
        async with Setup(forked, db, synchronous) as it:
            return await it.remote.submit()

    assert run(go()) == 2  # FULL


def test_little_work_of_one_turn_shares_a_commit_and_more_is_begun_before_its_end(forked, db, conn):
    async def go():
        async with Setup(forked, db, note) as it:
            await it.remote.submit("first")
            counts = [commits(conn)]
            for some in (range(7), range(7, 71)):
                await submitted(it.remote, *((f"k{number}",) for number in some))
                counts.append(commits(conn))
            return counts, keys(conn)

    (before, few, many), stored = run(go())
    assert few - before == 1
    assert 1 <= many - few <= 8
    assert stored == [f"k{number}" for number in range(71)]


def test_what_comes_while_the_database_is_locked_is_stored_in_groups(forked, db, conn):
    async def go():
        async with Setup(forked, db, note) as it:
            await it.remote.submit("first")
            before = commits(conn)
            rows(conn, "BEGIN IMMEDIATE")
            asked = []
            for number in range(1200):
                asked.append(it.remote.submit(f"k{number}"))
                await asyncio.sleep(0)
            rows(conn, "ROLLBACK")
            await asyncio.gather(*asked)
            shared, stored = commits(conn) - before, keys(conn)
            return shared, stored

    shared, stored = run(go())
    assert stored == [f"k{number}" for number in range(1200)]
    assert 3 <= shared < 30, "at most 500 share a commit"


def test_failing_work_leaves_nothing_and_its_neighbours_alone(forked, db, conn):
    async def go():
        async with Setup(forked, db, note_or_fail) as it:
            return await submitted(it.remote, ("k1",), ("bad",), ("k2",)), await submitted(it.remote, ("bad",))

    (_, error, _), (alone,) = run(go())
    assert keys(conn) == ["k1", "k2"]
    assert meta.get(conn, "failed") is None
    for each in (error, alone):
        assert isinstance(each, LookupError)
        assert "in fail\n" in "".join(each.__notes__), "the traceback of the process where it failed"


@pytest.mark.parametrize(
    ("kind", "raised", "sentence"),
    [
        ("sqlite", apsw.SQLError, "no such table: no_table"),
        ("file", RuntimeError, "DatabaseRefused: p.db is damaged. Restore it"),  # it can't be pickled
    ],
)
def test_an_error_keeps_its_type_where_it_can(forked, db, kind, raised, sentence):
    async def go():
        async with Setup(forked, db, fail) as it:
            return await submitted(it.remote, (kind,))

    (error,) = run(go())
    assert type(error) is raised
    assert str(error) == sentence


def test_a_transaction_that_sqlite_ends_fails_for_all_of_its_group_and_the_next_goes_on(forked, db, conn):
    async def go():
        async with Setup(forked, db, give_up) as it:
            return await submitted(it.remote, ("k1",), ("end",), ("k2",)), await it.remote.submit("k3")

    failed, _ = run(go())
    assert [type(each) for each in failed] == [apsw.FullError] * 3
    assert [len(each.__notes__) for each in failed] == [1] * 3
    assert keys(conn) == ["k3"]


def test_a_caller_that_gave_up_gets_nothing_and_the_others_get_theirs(forked, db, conn):
    async def go():
        async with Setup(forked, db, note) as it:
            gone = it.remote.submit("k1")
            gone.cancel()
            return (await it.remote.submit("k2"))[0]

    assert run(go()) == "k2"
    assert keys(conn) == ["k1", "k2"]


def test_messages_larger_than_the_socket_pass_in_both_directions(forked, db):
    async def go():
        async with Setup(forked, db, echo) as it:
            return await submitted(it.remote, *((str(number) * LARGE,) for number in range(4)))

    assert [each[:2] for each in run(go())] == ["00", "11", "22", "33"]


def test_what_can_not_be_pickled_is_done_here(forked, db, conn):
    lock = threading.Lock()

    async def go():
        async with Setup(forked, db, type_of) as it:
            return await submitted(it.remote, ("a",), (lock,))

    assert run(go()) == [("str", os.getpid()), ("lock", os.getpid())]


def type_of(conn, value):
    return type(value).__name__, os.getpid()


def test_an_answer_that_can_not_be_read_ends_the_process_and_the_work_is_done_here(forked, db):
    async def go():
        async with Setup(forked, db, unreadable) as it:
            return (await it.remote.submit()).maker, it.pid

    def give_up(*_):
        raise TimeoutError("the event loop stands still")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    try:
        maker, pid = run(go())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert maker == os.getpid()
    assert not is_alive(pid)


class Unreadable:
    """Can be read only by the process that made it."""

    def __init__(self, maker):
        self.maker = maker
        assert maker == os.getpid()

    def __reduce__(self):
        return Unreadable, (self.maker,)


def unreadable(conn):
    return Unreadable(os.getpid())


def test_it_holds_nothing_of_the_process_that_forked_it(db):
    """A listening socket would take connections after the function's end, a pipe would keep its reader waiting."""
    process = WriterProcess()
    with socket.create_server(("127.0.0.1", 0)), (db.parent / "opened").open("w"):
        process.fork()

    async def go():
        async with Setup(process, db, note) as it:
            await it.remote.submit("k1")
            return [path for number, path in opened(it.pid).items() if number > 2]

    (own,) = [name for name in run(go()) if not name.startswith(str(db))]
    assert own.startswith("socket:")


def test_without_a_process_the_writer_does_the_work(db, conn):
    async def go():
        writer = Writer(db)
        remote = RemoteWriter(WriterProcess(), db, note, writer=writer)
        found = await remote.submit("k1")
        await remote.close()
        writer.close()
        return found

    assert run(go()) == ("k1", os.getpid())
    assert keys(conn) == ["k1"]
