"""Section 4: the memory and the import time of a function."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, family, memory_mb
from tests.benchmarks.harness.system import System

_FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence", "api")
_IMPORT = "import time; before = time.process_time(); import functions.ingest; print(time.process_time() - before)"


def memory(scale: Scale) -> Iterator[Line]:
    """Each function in its own process, after its first request."""
    with System(scale.place("memory")) as system:
        system.start(*_FUNCTIONS)
        time.sleep(1)
        found = {name: memory_mb(system.pid(name)) for name in _FUNCTIONS}
        (writer,) = family(system.pid("ingest"))[1:]
        found["the writer process of ingest"] = memory_mb(writer)
    yield at_most(
        "RSS of one idle function, the largest",
        Spread.of([max(found.values())]),
        55,
        "MB",
        beside=", ".join(f"{name} {size:.0f}" for name, size in found.items()),
        reason="the interpreter, uvicorn, pydantic and SQLite are 41 MB of it",
    )


def imports(scale: Scale) -> Iterator[Line]:
    """Processor time of the import alone, after the start of the interpreter."""
    found = []
    for _ in range(scale.rounds + 1):
        done = subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, env=dict(os.environ))
        found.append(float(done.stdout))
    yield at_most(
        "CPU of importing functions.ingest",
        Spread.of(found[1:]),  # the first may read from the disk
        0.25,
        "s",
        reason="two thirds of it are asyncio, starlette and pydantic",
    )


LINES = (memory, imports)
