"""The writer process is a fork of the test's process: ``forked`` comes before ``conn``, which opens the database."""

import asyncio
import os
import signal
import socket
import threading
from functools import partial

import apsw
import pytest
from structlog.testing import capture_logs

from infra.runner import writer
from shared.core.errors import DatabaseRefused
from shared.db.engine import meta
from shared.db.engine.connection import rows, scalar, transaction
from shared.db.engine.group_commit import Writer
from shared.db.engine.writer_process import RemoteWriter, WriterProcess
from tests.liveness import is_alive, opened
from tests.support import column
from tests.wal import commits

LARGE = 3 << 20  # more than a socket takes at once


@pytest.fixture
def forked(db):
    process = WriterProcess()
    process.fork()
    return process


class Setup:
    """A remote writer, its process, and the writer that takes over from it."""

    def __init__(self, process, db, work, **options):
        self.pid = process._child.pid
        self.writer = Writer(db)
        self.remote = RemoteWriter(process, db, work, writer=self.writer, **options)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.remote.close()
        self.writer.close()


def note(conn, key):
    rows(conn, "CREATE TABLE IF NOT EXISTS noted (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE)")
    rows(conn, "INSERT OR IGNORE INTO noted (key) VALUES (?)", (key,))
    return key, os.getpid()


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


def size(conn, text):
    return len(text)


def echo(conn, text):
    return text


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 240))


def submitted(remote, *calls):
    """The results or errors of *calls*, asked for in one turn of the event loop."""
    return asyncio.gather(*(remote.submit(*call) for call in calls), return_exceptions=True)


def keys(conn):
    """In the order in which they were stored."""
    return column(conn, "SELECT key FROM noted WHERE key <> 'first' ORDER BY id")


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


# -- the end of the process --------------------------------------------------------------------------------------------


def test_what_a_killed_process_has_not_answered_is_done_here_in_order_and_so_is_all_that_follows(forked, db, conn):
    async def go():
        async with Setup(forked, db, note) as it:
            with transaction(conn):  # so that none of it is done yet
                asked = [it.remote.submit(f"k{number}") for number in range(3)]
                await asyncio.sleep(0.05)  # it has them, or the socket has: both are the same to the caller
                asked += [it.remote.submit(f"k{number}") for number in range(3, 6)]
                os.kill(it.pid, signal.SIGKILL)
                await asyncio.sleep(0.05)
                asked += [it.remote.submit("k6")]
            found = await asyncio.gather(*asked)
            return found, it.pid

    found, pid = run(go())
    assert [key for key, _ in found] == keys(conn) == [f"k{number}" for number in range(7)]
    assert {done_by for _, done_by in found} == {os.getpid()}
    assert not is_alive(pid)


def note_or_stop(conn, key):
    """In the process, the work stops it, in the middle of a transaction."""
    found = note(conn, key)
    if threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGSTOP)
    return found


def test_a_stopped_process_is_killed_and_its_work_and_all_that_follows_is_done_here(forked, db, conn):
    async def go():
        async with Setup(forked, db, note_or_stop, patience_s=0.1) as it:
            found = await asyncio.gather(*(it.remote.submit(f"k{number}") for number in range(3)))
            return [*found, await it.remote.submit("k3")], it.pid

    with capture_logs() as logged:
        found, pid = run(go())
    assert [key for key, _ in found] == keys(conn) == ["k0", "k1", "k2", "k3"]
    assert {done_by for _, done_by in found} == {os.getpid()}
    (told,) = logged
    assert (told["event"], told["pid"], told["reason"]) == ("writer_process.hung", pid, "it is stopped, as by SIGSTOP")


def test_there_is_a_problem_until_a_process_that_was_given_up_has_ended(forked, db, conn):
    async def go():
        async with Setup(forked, db, note_or_stop, patience_s=0.05) as it:
            problems = []
            asked = it.remote.submit("k1")
            for _ in range(600):
                problems.append(it.remote.problem)
                if asked.done() and problems[-1] is None:
                    break
                await asyncio.sleep(0.005)
            return problems, it.pid

    problems, pid = run(go())
    assert problems[0] is problems[-1] is None
    assert f"pid {pid}" in next(each for each in problems if each is not None)
    assert not is_alive(pid)


# -- another process in its place --------------------------------------------------------------------------------------


@pytest.fixture
def replaceable(db):
    process = WriterProcess()
    process.fork(spawn=partial(writer.spawn, "test"))
    return process


async def replaced(it, known, *more):
    """Wait until a process with another id does the work; the keys that were asked for, in order."""
    asked = []
    while True:
        asked.append(f"again {known[-1]} {len(asked)}")
        _, done_by = await it.remote.submit(asked[-1], *more)
        if done_by not in (*known, os.getpid()):
            known.append(done_by)
            return asked
        await asyncio.sleep(0.05)


def test_a_process_that_was_killed_is_replaced_whenever_it_had_worked(replaceable, db, conn):
    async def go():
        async with Setup(replaceable, db, note) as it:
            known, asked = [it.pid], []
            for _ in range(2):
                os.kill(known[-1], signal.SIGKILL)
                asked += await replaced(it, known)
            return known, asked

    with capture_logs() as logged:
        known, asked = run(go())
    assert keys(conn) == asked
    assert len(set(known)) == 3
    assert not any(map(is_alive, known))
    assert [each["event"] for each in logged] == ["writer_process.ended", "writer_process.replaced"] * 2
    assert logged[0]["consequence"].endswith("until another process is ready")


def test_one_that_hangs_before_its_first_work_is_not_replaced_again(replaceable, db, conn):
    """What it was asked for may be the cause."""

    async def go():
        async with Setup(replaceable, db, note_or_stop, patience_s=0.1) as it:
            asked = 0
            while len(logged) < 3:
                await it.remote.submit(f"k{asked}")
                asked += 1
                await asyncio.sleep(0.05)
            return (await it.remote.submit("last"))[1], asked

    with capture_logs() as logged:
        done_by, asked = run(go())
    assert done_by == os.getpid()
    events = ["writer_process.hung", "writer_process.replaced", "writer_process.hung"]
    assert [each["event"] for each in logged] == events
    assert logged[2]["consequence"].endswith("until this function is started again")
    assert keys(conn) == [*(f"k{number}" for number in range(asked)), "last"]


def test_what_comes_while_another_process_takes_over_keeps_its_order(replaceable, db, conn):
    async def go():
        async with Setup(replaceable, db, note) as it:
            await it.remote.submit("first")
            asked = []
            with transaction(conn):
                os.kill(it.pid, signal.SIGKILL)
                while not any(each["event"] == "writer_process.replaced" for each in logged):
                    asked.append(it.remote.submit(f"k{len(asked)}"))  # a thread waits with it for the lock
                    await asyncio.sleep(0.05)
                asked += [it.remote.submit(f"k{len(asked) + more}") for more in range(20)]
                await asyncio.sleep(0.2)
            return await asyncio.gather(*asked)

    with capture_logs() as logged:
        found = run(go())
    assert [key for key, _ in found] == keys(conn) == [f"k{number}" for number in range(len(found))]
    by = [done_by == os.getpid() for _, done_by in found]
    assert by == sorted(by, reverse=True)
    assert not by[-1]


def note_or_wait(conn, key, fifo):
    """The first time, the kernel holds the process in a call that no signal but SIGKILL ends, in state D.

    It waits until its child has begun its program, and the child waits for a reader of *fifo*.
    """
    found = note(conn, key)
    if fifo and threading.current_thread() is threading.main_thread():
        closed = [(os.POSIX_SPAWN_CLOSE, number) for number in opened(os.getpid()) if number > 2]  # with its locks
        waits = [(os.POSIX_SPAWN_OPEN, 9, fifo, os.O_WRONLY, 0)]
        os.posix_spawn("/bin/true", ["true"], {}, file_actions=[*closed, *waits])
    return found


def test_a_process_in_a_call_of_the_kernel_is_given_up_and_replaced(replaceable, db, conn, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def go():
        async with Setup(replaceable, db, note_or_wait, patience_s=0.1) as it:
            known = [it.pid]
            stuck = await it.remote.submit("stuck", str(fifo))
            await asyncio.gather(*(it.remote.submit(f"k{number}", None) for number in range(3)))
            await replaced(it, known, None)
            return stuck, known

    with capture_logs() as logged:
        stuck, known = run(go())
    os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))  # the child ends too
    assert stuck == ("stuck", os.getpid())
    assert keys(conn)[:4] == ["stuck", "k0", "k1", "k2"]
    assert (logged[0]["pid"], logged[0]["reason"]) == (known[0], "it waits for the disk")
    assert not any(map(is_alive, known))


def test_a_process_that_waits_for_the_lock_of_another_writer_does_not_hang(forked, db, conn):
    async def go():
        async with Setup(forked, db, note, patience_s=0.05) as it:
            await it.remote.submit("first")
            with transaction(conn):
                asked = it.remote.submit("k1")
                await asyncio.sleep(0.6)
                assert it.remote.problem is None
            return await asked, it.pid

    (_, done_by), pid = run(go())
    assert done_by == pid


def test_it_ends_with_the_remote_writer_after_all_that_was_asked(forked, db, conn):
    async def go():
        it = Setup(forked, db, note)
        asked = [it.remote.submit(f"k{number}") for number in range(20)]
        await asyncio.sleep(0)
        async with it:
            pass
        return [key for key, _ in await asyncio.gather(*asked)], it.pid

    found, pid = run(go())
    assert found == keys(conn) == [f"k{number}" for number in range(20)]
    with pytest.raises(ChildProcessError):  # not even a zombie
        os.waitpid(pid, 0)


def test_what_is_asked_in_the_turn_of_a_stop_is_done_too(forked, db, conn):
    async def go():
        async with Setup(forked, db, note) as it:
            await it.remote.submit("k1")
            asked = it.remote.submit("k2")
        return await asked

    assert run(go())[0] == "k2"
    assert keys(conn) == ["k1", "k2"]


def test_what_one_killed_during_a_stop_has_not_answered_is_done_here(forked, db, conn):
    async def go():
        it = Setup(forked, db, note)
        with transaction(conn):  # so that it is not done yet
            asked = it.remote.submit("k1")
            stop = asyncio.create_task(it.remote.close())
            await asyncio.sleep(0.05)
            os.kill(it.pid, signal.SIGKILL)
            await stop
        it.writer.close()
        return await asked

    assert run(go()) == ("k1", os.getpid())
    assert keys(conn) == ["k1"]


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


def test_one_that_was_never_asked_ends_too(forked, db):
    async def go():
        async with Setup(forked, db, note) as it:
            return it.pid

    with pytest.raises(ChildProcessError):
        os.waitpid(run(go()), 0)


def test_a_stop_does_not_wait_for_one_that_can_not_end(forked, db, conn):
    async def go():
        with transaction(conn):
            async with Setup(forked, db, note) as it:
                it.remote.submit("k1")
                await asyncio.sleep(0)
        return it.pid

    pid = run(go())
    os.waitpid(pid, 0)
    assert keys(conn) == ["k1"], "it had come, and is stored although nobody waits for it"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_signals_that_stop_a_function_do_not_end_it(forked, db, number):
    async def go():
        async with Setup(forked, db, note) as it:
            await it.remote.submit("k1")
            os.kill(it.pid, number)
            return (await it.remote.submit("k2"))[1] == it.pid

    assert run(go())


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
