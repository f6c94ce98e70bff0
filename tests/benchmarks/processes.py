"""Section 1 across processes: producers and consumers on one file, and the wake-up of another process."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.runtime.kick import Kicker
from tests.benchmarks.harness.crew import crew, wait_until
from tests.benchmarks.harness.measure import (
    Line,
    Scale,
    Spread,
    at_least,
    at_most,
    interleave,
    must_be,
    percentile,
    ratios,
)
from tests.benchmarks.harness.store import NOW, TEXT, Store
from tests.benchmarks.harness.system import System
from tests.benchmarks.raw import Raw

_PAIRS = 4
_SESSIONS = 16


class Turn(NamedTuple):
    """One claim of a consumer: its session, its rows, and the instants between which it held them."""

    session: int
    ids: tuple[int, ...]
    claimed_at: float
    settled_at: float


def producers_and_consumers(scale: Scale) -> Iterator[Line]:
    """Four of each, sixteen sessions, one message a turn, until everything is done."""
    for level in ("NORMAL", "FULL"):
        yield from _producers_and_consumers(scale, level)


def _producers_and_consumers(scale: Scale, level: str) -> Iterator[Line]:
    folder = scale.place(f"pairs-{level}")
    each = scale.few(4000, 300) if level == "NORMAL" else scale.few(800, 100)
    faults = {"lost": 0, "doubled": 0, "overlapped": 0}
    numbers = iter(range(1_000_000))
    with crew(2 * _PAIRS) as workers:

        def run(name: str) -> float:
            path = folder / f"{name}-{next(numbers)}.db"
            store = Store(path, level, chat_count=_SESSIONS) if name == "ours" else Raw(path, level)
            if name == "ours":  # as many turns at once as there are sessions
                store.conn.execute("UPDATE agents SET concurrency = :count", {"count": _SESSIONS})
            store.conn.close()
            producers = [(_produce, (path, name, level, number, each)) for number in range(_PAIRS)]
            consumers = [(_consume, (path, name, level, number, each * _PAIRS)) for number in range(_PAIRS)]
            found = workers.run([*producers, *consumers])
            turns: list[Turn] = [turn for turns in found[_PAIRS:] for turn in turns]
            if name == "ours":
                for fault, count in _faults(turns, each * _PAIRS).items():
                    faults[fault] += count
            begun: float = min(found[:_PAIRS])
            return each * _PAIRS / (max(turn.settled_at for turn in turns) - begun)

        seen = interleave({"raw": lambda: run("raw"), "ours": lambda: run("ours")}, scale.rounds)
    yield at_least(
        f"{_PAIRS} producers + {_PAIRS} consumers, processes, {level} / raw",
        ratios(seen["ours"], seen["raw"]),
        0.50,
        beside=", ".join(f"{name} {Spread.of(values).median:,.0f}/s" for name, values in seen.items()),
        reason="our consumers look for a free session before each claim; raw takes any message",
    )
    shown = ", ".join(f"{count} {fault}" for fault, count in faults.items())
    yield must_be(
        f"the same, of {each * _PAIRS * scale.rounds:,}", shown, is_met=not any(faults.values()), bar="0, 0, 0"
    )


def _faults(turns: list[Turn], expected: int) -> dict[str, int]:
    done = [id_ for turn in turns for id_ in turn.ids]
    by_session: dict[int, list[Turn]] = {}
    for turn in sorted(turns, key=lambda turn: turn.claimed_at):
        by_session.setdefault(turn.session, []).append(turn)
    overlaps = sum(
        later.claimed_at < earlier.settled_at for found in by_session.values() for earlier, later in pairwise(found)
    )
    return {"lost": expected - len(set(done)), "doubled": len(done) - len(set(done)), "overlapped": overlaps}


def _produce(start: float, path: Path, name: str, level: str, number: int, count: int) -> float:
    """Insert *count* messages; the instant at which it began."""
    if name == "ours":
        store = Store(path, level, chat_count=_SESSIONS, prefix=f"p{number}")
        wait_until(start)
        begun = time.perf_counter()
        for each in range(count):
            store.insert_one(place=each % _SESSIONS)
        store.conn.close()
        return begun
    raw = Raw(path, level, busy_ms=10_000)
    wait_until(start)
    begun = time.perf_counter()
    for each in range(count):
        raw.insert(TEXT, NOW, chat=each % _SESSIONS, prefix=f"p{number}")
    raw.conn.close()
    return begun


def _consume(start: float, path: Path, name: str, level: str, number: int, total: int) -> list[Turn]:
    """Work until all *total* messages are done; the turns."""
    wait_until(start)
    return _consume_ours(path, level, number, total) if name == "ours" else _consume_raw(path, level, total)


def _consume_ours(path: Path, level: str, number: int, total: int) -> list[Turn]:
    store = Store(path, level)
    chance = random.Random(number)
    turns: list[Turn] = []
    while True:
        ready = store.ready()
        if not ready and _is_over(store.conn, total, "trigger = 1 AND (status = 'pending' OR status = 'processing')"):
            store.conn.close()
            return turns
        chance.shuffle(ready)  # else all four try the same session
        for place in ready[:_PAIRS]:
            claim = store.claim(1, place=place, token=f"turn_{number}_{len(turns)}")
            if claim is not None:
                claimed_at = time.perf_counter()
                turn = Turn(
                    place.session, tuple(message.id for message in claim.batch), claimed_at, time.perf_counter()
                )
                store.settle(claim)
                turns.append(turn)


def _consume_raw(path: Path, level: str, total: int) -> list[Turn]:
    raw = Raw(path, level, busy_ms=10_000)
    token = f"raw{os.getpid()}"
    turns = []
    while True:
        found = raw.begin(1, NOW, token=token, session=None)
        if found:
            claimed_at = time.perf_counter()
            raw.settle(found, NOW, token=token)
            turns.append(Turn(0, tuple(row[0] for row in found), claimed_at, time.perf_counter()))
        elif _is_over(raw.conn, total, "status = 'pending'"):
            raw.conn.close()
            return turns


def _is_over(conn: apsw.Connection, total: int, is_open: str) -> bool:
    """Whether all messages are done. *is_open* is the condition of an index."""
    over = f"SELECT NOT EXISTS (SELECT 1 FROM messages WHERE {is_open}) AND (SELECT max(id) FROM messages) = ?"
    ((is_over,),) = rows(conn, over, (total,))
    return bool(is_over)


def wake_up(scale: Scale) -> Iterator[Line]:
    """From the end of a commit to the commit of the claim in another process, which was asleep."""
    with System(scale.place("wake")) as system:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.woken"],
            env=system.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            medians, slowest = _wake(scale, system, child)
        finally:
            child.kill()
            child.wait()
    what = "wake-up of another process, commit to claimed"
    why = (
        "the kick takes 0.1 ms; the rest is the search for ready sessions and the claim's commit in the writing thread"
    )
    beside = f"p50 {Spread.of(medians):.2f} ms: {why}"
    why = "the machine has two cores and other work"
    yield at_most(f"{what}: p99", Spread.of(slowest), 3, "ms", beside=beside, reason=why)
    yield _idle(scale)


def _wake(scale: Scale, system: System, child: "subprocess.Popen[bytes]") -> tuple[list[float], list[float]]:
    if child.stdin is None or child.stdout is None:
        raise RuntimeError("started without pipes")
    store = Store(system.db, "FULL")
    kicker = Kicker(system.run_dir)
    child.stdout.readline()  # it listens
    medians, slowest = [], []
    for _ in range(scale.rounds):
        waited = []
        for _ in range(scale.few(150, 20)):
            time.sleep(random.uniform(0.01, 0.02))  # it has gone to sleep again
            store.insert_one()
            committed_at = time.perf_counter()
            kicker.kick("dispatch")
            claimed_at = float(child.stdout.readline())
            waited.append((claimed_at - committed_at) * 1000)
        medians.append(percentile(waited, 0.5))
        slowest.append(percentile(waited, 0.99))
    kicker.close()
    store.conn.close()
    return medians, slowest


def _idle(scale: Scale) -> Line:
    """A dispatch without work."""
    with System(scale.place("idle")) as system:
        system.start("dispatch")
        time.sleep(1)
        shares = []
        for _ in range(scale.rounds):
            before = system.cpu_s()
            time.sleep(scale.few(4, 1))
            shares.append((system.cpu_s() - before) / scale.few(4, 1) * 100)
    why = "the web server wakes once a second for the time in its headers"
    return at_most("idle CPU of dispatch", Spread.of(shares), 0.05, "%", reason=why)


LINES = (producers_and_consumers, wake_up)
