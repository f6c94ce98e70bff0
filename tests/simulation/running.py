"""Runs a world and gives its outcome.

Each world has a Python of its own, a fork that ends with it: nothing of one world reaches the next.
"""

import gc
import importlib
import os
import pickle
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, cast

from tests.simulation.agents import casting
from tests.simulation.faults import Fault
from tests.simulation.machine.computer import FUNCTIONS
from tests.simulation.machine.loop import Stuck
from tests.simulation.outcome import Outcome
from tests.simulation.world import World

for _function in FUNCTIONS:  # once, and not anew in each fork
    importlib.import_module(f"functions.{_function}")

_CPU_S = 120
Maker = Callable[[int, Path, Sequence[Fault] | None], World]
_MEMORY = "/dev/shm"  # noqa: S108 - each world makes a folder of its own


def run(
    seed: int,
    faults: Sequence[Fault] | None = None,
    *,
    before: Callable[[], None] = lambda: None,
    make: Maker = World,
    limit_s: float = 900.0,
) -> Outcome:
    """The outcome of the world of this *seed*.

    Args:
        faults: what goes wrong, in place of what the seed plans.
        before: called in the Python of the world before it begins; it may change the product.
        make: makes the world, in that Python.
        limit_s: of real time; a world that takes longer is a failure. So is one that takes ``_CPU_S`` of the processor.
    """
    casting.load(seed)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _live_and_end(writing, before, lambda folder: make(seed, folder, faults))
    os.close(writing)
    try:
        outcome = _received(reading, seed, limit_s)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        used = os.wait4(child, 0)[2]
    outcome.seed, outcome.cpu_s = seed, used.ru_utime + used.ru_stime
    return outcome


def _received(pipe: int, seed: int, limit_s: float) -> Outcome:
    told, until_s = bytearray(), time.monotonic() + limit_s
    while (left_s := until_s - time.monotonic()) > 0:
        if select.select([pipe], [], [], left_s)[0]:
            piece = os.read(pipe, 1 << 20)
            if piece:
                told += piece
            elif told:
                return cast(Outcome, pickle.loads(told))  # noqa: S301 - of our own fork
            else:
                return Outcome(seed, failures=[f"the world died, or took more than {_CPU_S} s of processor time"])
    return Outcome(seed, failures=[f"the world took more than {limit_s:g} s of real time"])


def _live_and_end(pipe: int, before: Callable[[], None], make: Callable[[Path], World]) -> NoReturn:
    """What the fork does. It never returns: what the dead have left must not run."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
        folder = Path(tempfile.mkdtemp(prefix="world-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None))
        try:
            before()
            outcome = run_here(make, folder)
        except BaseException:  # noqa: BLE001 - the parent tells it
            outcome = Outcome(0, failures=[f"the simulator failed: {traceback.format_exc()}"])
        shutil.rmtree(folder, ignore_errors=True)
        with os.fdopen(pipe, "wb") as file:
            pickle.dump(outcome, file)
    finally:
        os._exit(0)


def run_here(make: Callable[[Path], World], folder: Path) -> Outcome:
    """As :func:`run`, in this Python, which is of no other use afterwards."""
    gc.disable()
    world = make(folder)
    try:
        world.computer.loop.run_until_complete(world.live())
    except Stuck as error:
        world.outcome.failures.append(f"stuck: {error}")
    return world.outcome
