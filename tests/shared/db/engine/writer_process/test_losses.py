"""A writer process that is killed, stopped or hangs: its work is done here, and another takes its place."""

import asyncio
import os
import signal
import threading
from functools import partial

import pytest
from structlog.testing import capture_logs

from infra.runner import writer
from shared.db.engine.connection import transaction
from shared.db.engine.writer_process import WriterProcess
from tests.liveness import is_alive, opened
from tests.shared.db.engine.writer_process.running_writer import Setup, keys, note, run

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
