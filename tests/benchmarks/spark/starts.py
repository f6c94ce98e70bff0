"""How long a person waits for a small job: from the command to its table."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial

from emulator.base.hints import STATE
from tests.benchmarks.emulated import running
from tests.benchmarks.growth import build
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, interleave
from tests.benchmarks.harness.store import NOW
from tests.benchmarks.spark.history import history
from tests.emulator.harness import copy_project

_MESSAGES = 5_000
_WHY = "the bar is for a quiet machine: Java starts, then Spark, then its Python workers, on the same two cores"
_LAST_LINE = b" messages at txid "
_PLAIN = "from pyspark.sql import SparkSession; print(SparkSession.builder.getOrCreate().range(1000).count())"


def trivial(scale: Scale) -> Iterator[Line]:
    """The message volume of a few rows, in turns with the smallest program of PySpark."""
    past = history(scale, 20_000)
    folder = scale.place("trivial")
    numbers = iter(range(1000))

    def ours() -> float:
        out = folder / f"out-{next(numbers)}"
        job = ["message_volume", "--replica", past.url, "--out", str(out), "--cache-dir", str(folder / "cache")]
        return _seconds([sys.executable, "-m", "spark_jobs", *job], until=_LAST_LINE)

    def plain() -> float:
        return _seconds([sys.executable, "-c", _PLAIN], until=b"1000")

    ours()  # the first run makes the class-data archive and restores the copy
    seen = interleave({"ours": ours, "plain": plain}, scale.rounds)
    beside = f"a bare SparkSession that counts to 1000, without archive: {Spread.of(seen['plain']):.1f} s"
    yield at_most("a trivial job, start to result", Spread.of(seen["ours"]), 10, "s", beside=beside, reason=_WHY)


def analyse(scale: Scale) -> Iterator[Line]:
    """`make analyse` against a running emulator."""
    project = copy_project(scale.place("analyse") / "project")
    state = project / STATE
    state.mkdir()
    build(state / "postroom.db", _MESSAGES, created_at=NOW)
    with running(project):
        run = partial(_seconds, ["make", "-s", "analyse", f"OUT={state}/out", f"STATE={state}"], until=_LAST_LINE)
        run()
        seen = [run() for _ in range(scale.rounds)]
    yield at_most("`make analyse` on a warm machine, command to table", Spread.of(seen), 12, "s", reason=_WHY)


def _seconds(command: list[str], *, until: bytes) -> float:
    """From the start of *command* to the line of its output that has *until* in it. Spark takes a second to stop."""
    start = time.perf_counter()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, env={**os.environ, "PYTHONWARNINGS": "ignore"}, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        found = [time.perf_counter() - start for line in process.stdout or () if until in line]
        process.wait()
        errors.seek(0)
        if process.returncode or not found:
            raise RuntimeError(f"{command[:4]} ended with {process.returncode}: {errors.read().decode()[-500:]}")
    return found[0]


LINES = (trivial, analyse)
