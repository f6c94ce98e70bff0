"""``dispatch`` with one line of output for each claim: the instant, by ``time.perf_counter``."""

import asyncio
import os
import time
from pathlib import Path

import uvloop

from functions.dispatch import Dispatch
from shared.core import logs
from shared.core.settings import Settings
from shared.turns.run.turn_runner import RunningTurn, TurnRunner

_OUT = os.dup(1)


class Announcer(TurnRunner):
    """Writes one line of output between the claim and its turn."""

    async def run(self, turn: RunningTurn) -> None:
        _say(repr(time.perf_counter()))
        await super().run(turn)


def _say(line: str) -> None:
    os.write(_OUT, f"{line}\n".encode())


async def _serve() -> None:
    service = Dispatch(Settings.load())
    service.runner = Announcer(service, service.settlement, service.gateway)
    service.worker.begin()
    await asyncio.sleep(0.2)  # by then it holds the lock and has repaired the rows
    _say("listening")
    await asyncio.Event().wait()


if __name__ == "__main__":
    with Path(os.devnull).open("wb") as nowhere:  # the log must not mix with the instants
        os.dup2(nowhere.fileno(), 1)
    logs.configure("dispatch")
    uvloop.run(_serve())
