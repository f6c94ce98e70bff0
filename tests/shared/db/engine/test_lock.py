import asyncio
import signal
import subprocess
import sys

from shared.db.engine.lock import WorkerLock

_HOLD = """
import sys, time
from pathlib import Path
from shared.db.engine.lock import WorkerLock
lock = WorkerLock(Path(sys.argv[1]), "dispatch")
print(lock.try_acquire(), flush=True)
time.sleep(60)
"""


def test_a_second_holder_is_refused_until_the_first_releases(tmp_path):
    first, second = (WorkerLock(tmp_path / "p.db", "dispatch") for _ in range(2))
    assert first.try_acquire()
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    assert not first.is_held
    assert second.try_acquire()


def test_kinds_do_not_hinder_each_other(tmp_path):
    assert WorkerLock(tmp_path / "p.db", "dispatch").try_acquire()
    assert WorkerLock(tmp_path / "p.db", "deliver").try_acquire()


def test_the_kernel_frees_it_when_the_holder_is_killed(tmp_path):
    lock = WorkerLock(tmp_path / "p.db", "dispatch")
    command = [sys.executable, "-c", _HOLD, str(tmp_path / "p.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "True\n"
        assert not lock.try_acquire()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert lock.try_acquire()


def test_a_waiting_process_gets_the_lock(tmp_path):
    async def wait():
        first, second = (WorkerLock(tmp_path / "p.db", "dispatch") for _ in range(2))
        first.try_acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(0)
        assert not second.is_held
        first.release()
        await asyncio.wait_for(waiting, 60)
        return second.is_held

    assert asyncio.run(wait())
