"""Hunts: a fault is put into a copy of the product, and worlds live there until one fails."""

import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from tests.emulator.harness import clean_environment
from tests.simulation.agents.casting import chosen
from tests.simulation.faults import frame, plan
from tests.simulation.mutants.mutant import Mutant

ROOT = Path(__file__).parents[3]
_COPIED = ("shared", "functions", "infra", "emulator", "tests", "pyproject.toml")
_MEMORY = "/dev/shm"  # noqa: S108 - each hunt makes a folder of its own
_LOOKED_AT = range(1, 301)  # seeds, for worlds that have what a fault needs
_PART = 5  # what a part of a world is worth, in faults
_CALM = "calm"  # among what a fault needs: nothing else happens
WORLDS = 12
LIMIT_S = 600.0  # of real time, for one mutant
_KEPT, _BROKEN, _ENDED_EARLY = 0, 40, 41  # how a run of worlds ends; the last: one was not judged
_FAILED = 1  # how pytest ends where a test failed, and Python where it can't begin
_OF_WORLD = "world "


class Found(NamedTuple):
    """How a hunt ended.

    Attributes:
        end: ``found``; ``survives``: every world kept every promise; ``too slow``: the limit came first, which says
            nothing; ``broken``: the run itself failed.
        words: what went wrong, and where.
        worlds: how many kept every promise.
    """

    end: Literal["found", "survives", "too slow", "broken"]
    words: str
    worlds: int = 0

    def __str__(self) -> str:
        match self.end:
            case "found":
                return self.words
            case "survives":
                return f"SURVIVES {self.worlds} worlds" if self.worlds else f"SURVIVES {self.words}"
            case _:
                return f"{self.end.upper()}: {self.words}"


@contextmanager
def copy_with(mutant: Mutant | None) -> Iterator[Path]:
    """A folder that shows the product, with the fault in it; None: as it is. All but the spoiled files are links."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None))
    try:
        for name in _COPIED:
            (folder / name).symlink_to(ROOT / name)
        if mutant is not None:
            for name, code in mutant.spoiled(ROOT).items():
                _own(folder, Path(name)).write_text(code)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own(folder: Path, file: Path) -> Path:
    """The path of a *file* in the folder that may be written: neither it nor a folder above it is a link any more."""
    for parent in reversed(file.parents[:-1]):
        if (folder / parent).is_symlink():
            (folder / parent).unlink()
            (folder / parent).mkdir()
            for each in (ROOT / parent).iterdir():
                (folder / parent / each.name).symlink_to(each)
    (folder / file).unlink()
    return folder / file


def hunt(mutant: Mutant | None, *, worlds: int = WORLDS, limit_s: float = LIMIT_S) -> Found:
    """Let its test run, or *worlds* one after the other until one fails: first that of its seed."""
    with copy_with(mutant) as folder:
        if mutant is not None and mutant.test:
            argv = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.test]
        else:
            seeds = _seeds(mutant)[:worlds]
            argv = ["-m", "tests.simulation.mutants", "--in-this-copy", *map(str, seeds)]
        code, said = _run(folder, argv, limit_s)
    lines = said.strip().splitlines() or [""]
    lived = sum(line.startswith(_OF_WORLD) for line in lines)
    match code:
        case None:
            return Found("too slow", f"{limit_s:g} s were over after {lived} worlds: give it more with --limit", lived)
        case 0:
            return Found("survives", "" if lived else lines[-1], lived)
        case _ if code == _BROKEN:
            return Found("found", lines[-1], lived)
        case _ if code == _FAILED and (failed := [line for line in lines if line.startswith("FAILED")]):
            return Found("found", failed[0])
        case _:
            return Found("broken", f"the run ended with {code}: {' '.join(lines[-3:])}", lived)


def _seeds(mutant: Mutant | None) -> list[int]:
    """Those of the worlds that show it soonest: many of the faults that it needs, and little else."""
    needs = () if mutant is None else mutant.needs
    known = [] if mutant is None or mutant.seed is None else [mutant.seed]
    return list(dict.fromkeys([*known, *sorted(_LOOKED_AT, key=lambda seed: _cost(seed, needs))]))


def _cost(seed: int, needs: Sequence[str]) -> float:
    """What a world costs, in parts of what it has of the *needs*."""
    span_s, is_replicated = frame(random.Random(f"{seed} shape"))
    faults = plan(random.Random(f"{seed} faults"), span_s, is_replicated=is_replicated)
    useful = sum(fault.kind in needs for fault in faults) + _PART * len(chosen(seed).intersection(needs))
    if _CALM in needs and not faults:
        useful = 1
    return (1 + span_s / 300 + len(faults) / 20) / (useful if needs else 1) if useful or not needs else math.inf


def _run(folder: Path, arguments: list[str], limit_s: float) -> tuple[int | None, str]:
    """How the run ended, None: it did not in time; and what it said."""
    own = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, *arguments]
    ran = subprocess.Popen(
        argv, cwd=folder, env=clean_environment() | own, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        said, _ = ran.communicate(timeout=limit_s)
        return ran.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)  # also the world, which is a fork
        said, _ = ran.communicate()
        return None, said


def live_here(seeds: list[int]) -> int:
    """What runs in the copy: worlds until one fails."""
    from tests.simulation.running import run  # late: a hunt needs no world, only its copy does

    for seed in seeds:
        outcome = run(seed)
        if outcome.failures:
            print(f"seed {seed}: {outcome.failures[0].strip()}", flush=True)
            return _BROKEN if outcome.hash or outcome.failures[0].startswith("stuck") else _ENDED_EARLY
        print(f"{_OF_WORLD}{seed} kept every promise", flush=True)
    return _KEPT
