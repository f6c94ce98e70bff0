"""The functions as processes: a stop leaves none behind, whatever was under way."""

import asyncio
import io
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emulator.base.console import Console
from emulator.processes.fork_client import ForkClient, ForkedProcess
from emulator.system.functions import Function, Functions
from infra.template.specs import FunctionSpec
from tests.emulator.harness import ROOT
from tests.liveness import is_alive

pytestmark = pytest.mark.e2e

FUNCTION = """
import asyncio, contextlib, os
from pathlib import Path

from starlette.responses import PlainTextResponse

from shared.runtime import framework

HERE = Path(os.environ["HERE"])


@contextlib.asynccontextmanager
async def lifespan(app):
    (HERE / "pids" / str(os.getpid())).touch()
    while (HERE / "opens-never").exists():
        await asyncio.sleep(0.01)
    assert not (HERE / "fails").exists()
    yield {}
    while (HERE / f"busy-{os.getpid()}").exists():
        await asyncio.sleep(0.01)


@framework.http
async def NAME(request):
    return PlainTextResponse("ok")
"""
NAMES = ("first", "second")


def _spec(name: str) -> FunctionSpec:
    return FunctionSpec(name, port=0, timeout_ms=10_000, environment={}, secrets=(), line=1)


@dataclass
class Scene:
    """Two functions, their folder, and the output of the console."""

    functions: Functions
    folder: Path
    told: io.StringIO

    @property
    def pids(self) -> set[int]:
        """All process ids so far."""
        return {int(path.name) for path in (self.folder / "pids").iterdir()}

    @property
    def alive(self) -> set[int]:
        return {pid for pid in self.pids if is_alive(pid)}

    def pid(self, name: str) -> int:
        current = self.functions[name].current
        assert current is not None
        return current.pid

    def keep_busy(self, pid: int) -> None:
        """Keep the process busy, so that it does not stop by itself."""
        (self.folder / f"busy-{pid}").touch()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110 - processes set no events
            await asyncio.sleep(0.01)


def play(folder: Path, scenario: Callable[[Scene], Awaitable[None]]) -> None:
    """Run *scenario*; its fork server ends after it."""
    for name in ("functions", "pids"):
        (folder / name).mkdir()
    (folder / "functions" / "__init__.py").touch()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    own = environment | {"HERE": str(folder), "POSTROOM_DB": str(folder / "p.db"), "POSTROOM_RUN_DIR": str(folder)}

    async def run() -> None:
        told = io.StringIO()
        fork_client = ForkClient(folder, environment, print)
        fork_client.start()
        try:
            await fork_client.wait_loaded()
            functions = Functions(fork_client, Console("json", told))
            for name in NAMES:
                (folder / "functions" / f"{name}.py").write_text(FUNCTION.replace("NAME", name))
                functions.add(
                    Function(FunctionSpec(name, 0, 10_000, {}, (), 1), socket.create_server(("127.0.0.1", 0)), own)
                )
            await scenario(Scene(functions, folder, told))
            await functions.stop()
        finally:
            await fork_client.stop()

    asyncio.run(run())


def test_a_stop_while_a_function_starts_ends_its_process(tmp_path: Path) -> None:
    """Such a process was no function's current one; it served until the fork server ended, after the last sync."""

    async def scenario(scene: Scene) -> None:
        (scene.folder / "opens-never").touch()
        starting = asyncio.create_task(scene.functions.start(scene.functions["first"]))
        await until(lambda: scene.pids)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)

        await scene.functions.stop()
        assert not scene.alive

    play(tmp_path, scenario)


def test_a_stop_ends_a_replaced_process_that_is_still_busy(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.functions.start(scene.functions["first"])
        scene.keep_busy(scene.pid("first"))
        await scene.functions.reload(["first"], because="test")
        assert len(scene.alive) == 2

        await scene.functions.stop()
        assert not scene.alive

    play(tmp_path, scenario)


def test_a_crashed_function_is_not_restarted_during_a_stop(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for name in NAMES:
            await scene.functions.start(scene.functions[name])
        scene.keep_busy(scene.pid("second"))
        os.kill(scene.pid("first"), signal.SIGKILL)
        await until(lambda: "restarting it" in scene.told.getvalue())

        await scene.functions.stop()
        assert len(scene.pids) == 2

    play(tmp_path, scenario)


def test_a_reload_does_not_wait_for_a_function_that_crashes_at_each_start(tmp_path: Path) -> None:
    """Until then no file that was saved later was applied, not even one that mends the function."""

    async def scenario(scene: Scene) -> None:
        first = scene.functions["first"]
        await scene.functions.start(first)
        (scene.folder / "fails").touch()
        os.kill(scene.pid("first"), signal.SIGKILL)
        await until(lambda: first.crashes > 1)

        async with asyncio.timeout(60):
            await scene.functions.reload(["first"], because="test")
        assert first.stale is not None
        (scene.folder / "fails").unlink()
        await until(lambda: first.current is not None)
        assert (first.problem, first.stale) == (None, None)

    play(tmp_path, scenario)


class SlowProcess(ForkedProcess):
    """Is ready 12 s after its start, by a clock of its own."""

    async def wait_ready(self, timeout_s: float) -> bool:
        return timeout_s > 12


class SlowMachine(ForkClient):
    """Forks such processes."""

    def fork(self, name: str, *_: Any, **__: Any) -> ForkedProcess:
        return SlowProcess(name, name, lambda *_: None, None)  # type: ignore[arg-type]

    async def stop_fork(self, fork: ForkedProcess, timeout_s: float) -> bool:
        if not fork.ended.done():
            fork.ended.set_result(0)
        return True


def test_a_reload_waits_as_long_as_a_start_for_a_machine_that_is_busy(tmp_path: Path) -> None:
    """What was saved meanwhile was lost: the process was killed, and the code of before went on."""

    async def scenario() -> None:
        machine = SlowMachine(tmp_path, {})
        functions = Functions(machine, Console("json", io.StringIO()))
        functions.add(Function(_spec("first"), socket.create_server(("127.0.0.1", 0)), {}))
        await functions.start(functions["first"])
        await functions.reload(["first"], because="test")
        assert (functions["first"].generation, functions["first"].stale) == (2, None)
        await functions.stop()

    asyncio.run(scenario())
