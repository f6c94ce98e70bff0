"""The S3 process restarts when it ends, but never during a stop."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from emulator.base import ports
from emulator.base.environment import DUMMY_AWS
from emulator.storage.s3_process import S3Process
from tests.emulator.harness import ROOT
from tests.liveness import is_alive

pytestmark = pytest.mark.e2e


class StoppedMeanwhile(S3Process):
    """It gets the stop while its second process starts."""

    stopping: "asyncio.Task[None] | None" = None
    pids: tuple[int, ...] = ()

    async def _spawn(self) -> asyncio.subprocess.Process:
        if self.pids:
            self.stopping = asyncio.create_task(self.stop())
            await asyncio.sleep(0)
        process = await super()._spawn()
        self.pids += (process.pid,)
        return process


def test_a_stop_during_a_restart_ends_the_new_process(tmp_path: Path) -> None:
    """The stop once waited for ever for the end of a process that it had not seen."""

    async def scenario() -> None:
        store = StoppedMeanwhile(
            folder=tmp_path / "s3", sock=ports.listen(0).sock, project=ROOT,
            environment={"PATH": os.environ["PATH"]} | DUMMY_AWS, faults=tmp_path / "faults.json",
            on_line=lambda _: None, on_trouble=lambda _: None,
        )  # fmt: skip
        await store.start()
        await store.wait_ready()
        os.kill(store.pids[0], signal.SIGKILL)
        async with asyncio.timeout(60):
            while store.stopping is None:  # noqa: ASYNC110 - its keeper sets no event
                await asyncio.sleep(0.01)
            await store.stopping
        assert len(store.pids) == 2
        assert not any(map(is_alive, store.pids))

    asyncio.run(scenario())
