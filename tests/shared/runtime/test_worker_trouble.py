import asyncio
import tempfile
from pathlib import Path

from shared.runtime.worker import Worker


def test_an_unopenable_lock_file_is_retried(tmp_path):
    """After a full disk or too many open files at the start, the process must work as soon as it can."""
    in_its_place = tmp_path / "p.db-dispatch"
    in_its_place.mkdir()
    worked = asyncio.Event()

    async def repair():
        pass

    async def step():
        worked.set()

    async def go(sockets):
        worker = Worker("dispatch", db=tmp_path / "p.db", sockets=sockets, repair=repair, step=step)
        worker.begin()
        await asyncio.sleep(0)
        in_its_place.rmdir()
        worker.wake()
        await asyncio.wait_for(worked.wait(), 60)
        await worker.stop()

    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as sockets:
        asyncio.run(go(Path(sockets)))
