"""Section 6: the emulator with everything on: how soon it answers, and what it holds."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Line, Scale, Spread, at_most

_SETTLED_S = 3.0


def run(scale: Scale) -> Iterator[Line]:
    """Started and stopped as often as there are rounds; the first warms the disk's cache."""
    ready, memory, parts = [], [], ""
    for number in range(scale.rounds + 1):
        with _running(scale.place(f"emulator-{number}")) as (pid, ready_s):
            time.sleep(_SETTLED_S)
            found = {each: _shared_mb(each) for each in _family(pid)}
            if number:
                ready.append(ready_s)
                memory.append(sum(found.values()))
                parts = ", ".join(f"{_name(each)} {size:.0f}" for each, size in sorted(found.items()))
    why = "the machine's cores do something else as well"
    yield at_most("emulator run, until everything answers", Spread.of(ready), 1.5, "s", reason=why)
    why = "six functions, forked from one process, the fork server, S3, Litestream and the supervisor"
    yield at_most(
        "the same, memory of all its processes, idle (PSS)", Spread.of(memory), 250, "MB", beside=parts, reason=why
    )


@contextlib.contextmanager
def _running(state: Path) -> Iterator[tuple[int, float]]:
    """Its process, and the seconds that it says it took."""
    command = [sys.executable, "-m", "emulator", "run", "--state", str(state), "--port", "0", "--log", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            lines = iter(process.stdout.readline, "") if process.stdout else iter(())
            ready: dict[str, Any] | None
            ready = next((said for line in lines if (said := json.loads(line))["event"] == "emulator.ready"), None)
            if ready is None:
                raise RuntimeError(f"the emulator did not start; its state is in {state}")
            yield process.pid, ready["ms"] / 1000
        finally:
            process.terminate()


def _family(pid: int) -> list[int]:
    """The process, and all that came of it."""
    found = [pid]
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        children = Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        found += [each for child in children for each in _family(int(child))]
    return found


def _name(pid: int) -> str:
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return arguments[2] if name.startswith("python") else name


def _shared_mb(pid: int) -> float:
    """Its memory; what it shares with others is divided by their number."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


LINES = (run,)
