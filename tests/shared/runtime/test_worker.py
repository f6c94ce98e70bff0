import asyncio
import tempfile
from pathlib import Path

import pytest

from shared.runtime import worker
from shared.runtime.kick import Kicker
from shared.runtime.worker import Backlog, Worker


@pytest.fixture
def sockets():
    """A folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as folder:
        yield Path(folder)


class Steps:
    """Counts the steps and repairs of a worker, and runs them by *script*, whose last entry repeats."""

    def __init__(self, db, sockets, *script, repair_fails=0):
        self.told = []
        self.stepped = asyncio.Condition()
        self._script = list(script) or [None]
        self._repair_fails = repair_fails
        self.worker = Worker("dispatch", db=db, sockets=sockets, repair=self.repair, step=self.step)

    async def repair(self):
        await self._tell("repair")
        if self.told.count("repair") <= self._repair_fails:
            raise LookupError("no")

    async def step(self):
        await self._tell("step")
        what = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(what, Exception):
            raise what
        return what

    async def _tell(self, what):
        self.told.append(what)
        async with self.stepped:
            self.stepped.notify_all()

    async def until(self, count):
        async with self.stepped:
            await asyncio.wait_for(self.stepped.wait_for(lambda: len(self.told) >= count), 60)


def run(work):
    return asyncio.run(work())


def test_the_worker_repairs_once_before_its_first_step(tmp_path, sockets):
    async def work():
        steps = Steps(tmp_path / "p.db", sockets)
        steps.worker.begin()
        steps.worker.begin()
        await steps.until(2)
        steps.worker.wake()
        await steps.until(3)
        await steps.worker.stop()
        return steps.told

    assert run(work) == ["repair", "step", "step"]


def test_no_step_runs_before_a_repair_succeeded(tmp_path, sockets):
    async def work():
        steps = Steps(tmp_path / "p.db", sockets, repair_fails=1)
        steps.worker.begin()
        await steps.until(1)
        steps.worker.wake()
        await steps.until(3)
        await steps.worker.stop()
        return steps.told

    assert run(work) == ["repair", "repair", "step"]


def test_an_error_in_a_step_does_not_end_the_loop(tmp_path, sockets):
    async def work():
        steps = Steps(tmp_path / "p.db", sockets, LookupError("no"), None)
        steps.worker.begin()
        await steps.until(2)
        steps.worker.wake()
        await steps.until(3)
        await steps.worker.stop()
        return steps.told

    assert run(work) == ["repair", "step", "step"]


def test_a_kick_wakes_the_worker(tmp_path, sockets):
    async def work():
        steps = Steps(tmp_path / "p.db", sockets)
        steps.worker.begin()
        await steps.until(2)
        kicker = Kicker(sockets)
        kicker.kick("dispatch")
        await steps.until(3)
        kicker.close()
        await steps.worker.stop()
        return steps.told

    assert run(work) == ["repair", "step", "step"]


def test_a_due_time_and_the_end_of_a_job_wake_the_worker(tmp_path, sockets):
    async def work():
        steps = Steps(tmp_path / "p.db", sockets, 0.0, None)
        steps.worker.begin()
        await steps.until(3)
        ended = asyncio.Event()

        async def job():
            ended.set()

        steps.worker.start(job())
        assert steps.worker.running == 1
        await steps.until(4)
        assert ended.is_set()
        assert steps.worker.running == 0
        await steps.worker.stop()
        return steps.told

    assert run(work) == ["repair", "step", "step", "step"]


def test_a_failing_job_stops_nothing_else(tmp_path, sockets):
    async def work():
        steps = Steps(tmp_path / "p.db", sockets)
        steps.worker.begin()
        await steps.until(2)

        async def job():
            raise LookupError("no")

        steps.worker.start(job())
        await steps.until(3)
        await steps.worker.stop()
        return steps.worker.running

    assert run(work) == 0


def test_stop_cancels_slow_jobs_and_waits_for_their_end(tmp_path, sockets):
    async def work():
        steps = Steps(tmp_path / "p.db", sockets)
        steps.worker.begin()
        await steps.until(2)
        told = []

        async def job():
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                told.append("given back")

        steps.worker.start(job())
        await steps.worker.stop()
        return told

    assert run(work) == ["given back"]


def test_a_step_that_runs_at_the_stop_finishes(tmp_path, sockets):
    """Its claims need their jobs: only a job gives a claim back."""

    async def work():
        begun, told = asyncio.Event(), []

        async def step():
            begun.set()
            await asyncio.sleep(0.01)  # stands for the commit of a claim, in another thread
            worker.start(job())

        async def job():
            told.append("ran")

        async def repair():
            pass

        worker = Worker("dispatch", db=tmp_path / "p.db", sockets=sockets, repair=repair, step=step)
        worker.begin()
        await begun.wait()
        await worker.stop()
        return told

    assert run(work) == ["ran"]


def test_a_second_worker_waits_until_the_first_has_stopped(tmp_path, sockets):
    async def work():
        first, second = (Steps(tmp_path / "p.db", sockets) for _ in range(2))
        first.worker.begin()
        await first.until(2)
        second.worker.begin()
        second.worker.wake()
        await asyncio.sleep(0)
        assert second.told == []
        await first.worker.stop()
        await second.until(2)
        await second.worker.stop()
        return second.told

    assert run(work) == ["repair", "step"]


def test_a_worker_that_never_got_the_lock_stops_at_once(tmp_path, sockets, monkeypatch):
    monkeypatch.setattr(worker, "_STOP_PATIENCE_S", 600.0)

    async def work():
        first, second = (Steps(tmp_path / "p.db", sockets) for _ in range(2))
        first.worker.begin()
        await first.until(2)
        second.worker.begin()
        await asyncio.wait_for(second.worker.stop(), 60)
        await first.worker.stop()
        return second.told

    assert run(work) == []


def test_a_backlog_queries_again_when_it_runs_short_or_is_old():
    looks = []

    def look(now_ms):
        looks.append(now_ms)
        return [1, 2, 3, 4]

    backlog = Backlog(look)
    assert backlog.take(0, now_ms=1000) == []
    assert backlog.take(2, now_ms=1000) == [1, 2]
    assert backlog.take(1, now_ms=1249) == [3]
    assert looks == [1000]
    assert backlog.take(1, now_ms=1250) == [1]
    assert backlog.take(4, now_ms=1251) == [1, 2, 3, 4]
    assert looks == [1000, 1250, 1251]


def test_a_backlog_queries_again_after_forget_or_when_the_clock_went_back():
    looks = []
    backlog = Backlog(lambda now_ms: looks.append(now_ms) or [1, 2, 3])
    backlog.take(1, now_ms=1000)
    backlog.forget()
    backlog.take(1, now_ms=1001)
    backlog.take(1, now_ms=500)
    assert looks == [1000, 1001, 500]


def test_an_unopenable_lock_file_is_retried(tmp_path, sockets):
    """After a full disk or too many open files at the start, the process must work as soon as it can."""
    in_its_place = tmp_path / "p.db-dispatch"
    in_its_place.mkdir()
    worked = asyncio.Event()

    async def repair():
        pass

    async def step():
        worked.set()

    async def go():
        worker = Worker("dispatch", db=tmp_path / "p.db", sockets=sockets, repair=repair, step=step)
        worker.begin()
        await asyncio.sleep(0)
        in_its_place.rmdir()
        worker.wake()
        await asyncio.wait_for(worked.wait(), 60)
        await worker.stop()

    asyncio.run(go())
