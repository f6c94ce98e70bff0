"""The fakes with the machine's clock, and a client library that uses them in a process of its own. And readers."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from emulator.platforms import SystemClock
from tests.emulator.platforms.conftest import DISCORD_CHANNEL, GROUP, World
from tests.emulator.platforms.telegram.pictures import OGG, png

PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 60


def installed(*path: str) -> Path:
    """A program of those that ``make clients`` installed."""
    home = os.environ.get("POSTROOM_TEST_CLIENTS")
    assert home, "run `make clients`: it installs the libraries, and says where"
    return Path(home).joinpath(*path)


def printed(*command: str | Path, given: str | None = None) -> str:
    """What the command prints about what it is *given*; the test fails with its words where it refuses that."""
    done = subprocess.run(command, input=given, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def read_by(program: str, given: str) -> Any:
    """What *program*, a reader of our output, finds in it."""
    return json.loads(printed(installed("readers", "bin", "python"), PROGRAMS / program, given=given))


class Library:
    """A running program; its lines are *ready*, then one JSON object."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ready(self) -> None:
        line = await self._process.stdout.readline()
        assert line == b"ready\n", line + await self._process.stdout.read() + await self._process.stderr.read()

    async def found(self) -> dict[str, Any]:
        """What the program printed at its end."""
        out, err = await self._process.communicate()
        assert self._process.returncode == 0, err.decode()
        return json.loads(out.splitlines()[-1])

    def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()


@asynccontextmanager
async def world_of(state: Path) -> AsyncIterator[World]:
    """The fakes, with their limits on."""
    world = World(state, SystemClock(), {})
    await world.open()
    try:
        async with asyncio.timeout(LIMIT_S):
            yield world
            await world.check_schemas()
    finally:
        await world.close()


@asynccontextmanager
async def library(world: World, venv: str, program: str, chat: str = "") -> AsyncIterator[Library]:
    """*program* with the libraries of *venv*, which ``make clients`` made."""
    python = installed(venv, "bin", "python")
    gateway = (await world.discord("GET", "/gateway"))[1]["url"]
    mine = {
        "GATEWAY": gateway,
        "CHAT": chat,
        "GROUP": GROUP,
        "CHANNEL": DISCORD_CHANNEL,
        "PICTURE": png(40, 30).hex(),
        "VOICE": OGG.hex(),
    }
    process = await asyncio.create_subprocess_exec(
        python,
        PROGRAMS / program,
        env={**os.environ, **world.env, **mine, "PYTHONPATH": ""},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    running = Library(process)
    try:
        yield running
    finally:
        running.end()
        await process.wait()
