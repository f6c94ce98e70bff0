"""The writer process ends with its remote writer, after all that was asked, and not before."""

import asyncio
import os
import signal

import pytest

from shared.db.engine.connection import transaction
from tests.shared.db.engine.writer_process.running_writer import Setup, keys, note, run


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
