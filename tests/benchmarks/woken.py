"""``dispatch`` that prints an instant of ``time.perf_counter`` for each claim."""

import asyncio
import os
import time
from pathlib import Path

import uvloop

from functions.dispatch import Dispatch, Running
from shared.core import logs
from shared.core.settings import Settings

_OUT = os.dup(1)


class Woken(Dispatch):
    """Prints one line between the claim and its turn."""

    async def turn(self, running: Running) -> None:
        _say(repr(time.perf_counter()))
        await super().turn(running)


def _say(line: str) -> None:
    os.write(_OUT, f"{line}\n".encode())


async def _serve() -> None:
    service = Woken(Settings.load())
    service.worker.begin()
    await asyncio.sleep(0.2)  # by then it holds the lock and has repaired the rows
    _say("listening")
    await asyncio.Event().wait()


if __name__ == "__main__":
    with Path(os.devnull).open("wb") as nowhere:  # the log must not mix with the instants
        os.dup2(nowhere.fileno(), 1)
    logs.configure("dispatch")
    uvloop.run(_serve())
