"""Section 6: the emulator with everything on: its start, its memory, its reload and its end."""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emulator.base.hints import STATE
from tests.benchmarks.growth import build
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, family, must_be, percentile, shared_mb
from tests.benchmarks.harness.store import NOW
from tests.emulator.harness import copy_project, launch
from tests.liveness import is_alive

_SETTLED_S = 3.0
_EDITS = 10
_PAUSE_S = 0.5  # between two edits
_LIMIT_S = 60.0
_ROWS, _TABLES = 100_000, 4  # completed messages, acknowledged answers, events, history
_BUSY = "eleven processes start, and their imports keep both cores busy for all of it"


def run(scale: Scale) -> Iterator[Line]:
    """Start and stop it once a round; one more round before them warms the disk, and compiles."""
    ready, memory, parts = [], [], ""
    project = copy_project(scale.place("emulator") / "project")
    for number in range(scale.rounds + 1):
        shutil.rmtree(project / STATE, ignore_errors=True)
        with running(project) as (pid, ready_s):
            time.sleep(_SETTLED_S)
            found = {each: shared_mb(each) for each in family(pid)}
            if number:
                ready.append(ready_s)
                memory.append(sum(found.values()))
                parts = ", ".join(f"{_name(each)} {size:.0f}" for each, size in sorted(found.items()))
    yield at_most("emulator run, until everything answers", Spread.of(ready), 0.9, "s", reason=_BUSY)
    why = "six functions, forked from one process, the fork server, S3, Litestream and the supervisor"
    yield at_most(
        "the same, memory of all its processes, idle (PSS)", Spread.of(memory), 230, "MB", beside=parts, reason=why
    )


def restored(scale: Scale) -> Iterator[Line]:
    """The same with a database to restore: it is deleted before each start."""
    project = copy_project(scale.place("restored") / "project")
    database = project / STATE / "postroom.db"
    database.parent.mkdir()
    build(database, scale.few(_ROWS, 4_000) // _TABLES, created_at=NOW)
    ready = []
    for _ in range(scale.rounds + 1):
        with running(project) as (_, ready_s):
            ready.append(ready_s)
        for path in database.parent.glob(f"{database.name}*"):
            path.unlink()
    what = f"emulator run, with {scale.few(_ROWS, 4_000):,} rows to restore, until everything answers"
    yield at_most(what, Spread.of(ready[1:]), 0.9, "s", reason=_BUSY)  # the first start has nothing to restore


def edit(scale: Scale) -> Iterator[Line]:
    """From the write of a function's file to the first answer of the new code, with requests all the time."""
    project = copy_project(scale.place("edit") / "project")
    source = project / "functions" / "api.py"
    text = source.read_text()
    times, failed = [], 0
    running = launch(project, "--log", "json")
    try:
        running.wait_ready()
        (url,) = (each["url"] for each in running.status["functions"] if each["name"] == "api")
        for number in range(scale.few(_EDITS, 3)):
            start = time.perf_counter()
            source.write_text(text.replace('function_app("api"', f'function_app("edit-{number}"'))
            is_new = False
            while not is_new and time.perf_counter() < start + _LIMIT_S:
                status, body = running.get("/healthz", base=url)
                failed += status != 200
                is_new = f"edit-{number}".encode() in body
            times.append((time.perf_counter() - start) * 1000)
            time.sleep(_PAUSE_S)
    finally:
        running.stop()
    why = "the new process imports all modules that it did not inherit"
    yield at_most("edit to serving, p95", Spread.of([percentile(times, 0.95)]), 100, "ms", reason=why)
    yield must_be(f"the same, failed requests in {len(times)} reloads", str(failed), is_met=failed == 0, bar="0")


def stop(scale: Scale) -> Iterator[Line]:
    """Ctrl-C while a client reads the event stream; then kill -9 of the supervisor."""
    project = copy_project(scale.place("stop") / "project")
    times = []
    for _ in range(scale.rounds):
        running = launch(project, "--log", "json")
        running.wait_ready()
        with urllib.request.urlopen(f"{running.url}/api/events/stream", timeout=_LIMIT_S) as stream:
            stream.readline()
            start = time.perf_counter()
            running.stop()
            times.append(time.perf_counter() - start)
    yield at_most("stop with an open event stream", Spread.of(times), 3, "s")
    running = launch(project, "--log", "json")
    running.wait_ready()
    pids = family(running.process.pid)
    running.stop(signal.SIGKILL)
    time.sleep(_SETTLED_S)
    left = sum(map(is_alive, pids))
    what = f"processes left {_SETTLED_S:g} s after kill -9 of the supervisor, of {len(pids)}"
    yield must_be(what, str(left), is_met=left == 0, bar="0")


@contextlib.contextmanager
def running(project: Path) -> Iterator[tuple[int, float]]:
    """``emulator run`` as the README has it: its process, and the seconds since that began, as it reports them."""
    with subprocess.Popen(
        [sys.executable, "-m", "emulator", "run"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            lines = iter(process.stdout.readline, "") if process.stdout else iter(())
            ready: dict[str, Any] | None
            ready = next((said for line in lines if (said := json.loads(line))["event"] == "emulator.ready"), None)
            if ready is None:
                raise RuntimeError(f"the emulator did not start in {project}")
            yield process.pid, ready["ms"] / 1000
        finally:
            process.terminate()


def _name(pid: int) -> str:
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return arguments[2] if name.startswith("python") else name


LINES = (run, restored, edit, stop)
