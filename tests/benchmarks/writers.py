"""Section 1, many writers: group commit in one process, and eight processes that take turns."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import uvloop

from shared.db.engine.group_commit import Writer
from tests.benchmarks.harness.crew import crew, wait_until
from tests.benchmarks.harness.measure import (
    Line,
    Scale,
    Slice,
    Spread,
    at_least,
    at_most,
    interleave,
    must_be,
    ratios,
    watched,
)
from tests.benchmarks.harness.store import Store

_CONCURRENT = 64
_WRITERS = 8
_BUSY_MS = 5000  # the usual setting


def group_commit(scale: Scale) -> Iterator[Line]:
    """64 requests at a time through the Writer, against a commit for each; and one request alone."""
    for clients in (_CONCURRENT, 1):
        yield from _group_commit(scale, clients)


def _group_commit(scale: Scale, clients: int) -> Iterator[Line]:
    folder = scale.place(f"group-{clients}")
    in_loop, in_thread, grouped = (Store(folder / f"{name}.db", "FULL") for name in ("loop", "thread", "group"))
    writer = Writer(grouped.path)
    executor = ThreadPoolExecutor(1)

    async def commit_in_loop() -> None:
        in_loop.insert_one()
        await asyncio.sleep(0)

    async def commit_in_thread() -> None:
        await asyncio.get_running_loop().run_in_executor(executor, in_thread.insert_one)

    async def commit_together() -> None:
        await writer.run(grouped.put)

    try:
        seen = interleave(
            {
                "each in the event loop": _clients(clients, commit_in_loop, scale),
                "each in a thread": _clients(clients, commit_in_thread, scale),
                "ours": _clients(clients, commit_together, scale),
            },
            scale.rounds,
        )
    finally:
        writer.close()
        executor.shutdown()
    beside = ", ".join(f"{name} {Spread.of(values).median:,.0f}/s" for name, values in seen.items())
    blocking = ratios(seen["ours"], seen["each in the event loop"])
    threaded = ratios(seen["ours"], seen["each in a thread"])
    if clients > 1:
        what = f"group commit, {clients} at a time, FULL / a commit for each"
        yield watched(what, blocking, beside=beside, reason="an fsync is cheap on this disk")
        return
    why = "the way to the writing thread and back costs more than an fsync of this disk"
    yield watched("group commit, alone / a commit in a thread of its own", threaded, beside=beside, reason=why)
    yield watched("the same / a commit that blocks the event loop", blocking, reason=why)


def _clients(count: int, write: Callable[[], Awaitable[None]], scale: Scale) -> Slice:
    """Commits a second of *count* clients; each begins its next as soon as its last is committed."""

    async def run() -> float:
        done = 0
        begin = time.perf_counter()
        end = begin + scale.slice_s

        async def client() -> None:
            nonlocal done
            while time.perf_counter() < end:
                await write()
                done += 1

        await asyncio.gather(*(client() for _ in range(count)))
        return done / (time.perf_counter() - begin)

    return lambda: uvloop.run(run())


def fairness(scale: Scale) -> Iterator[Line]:
    """Eight processes write without a pause, then with 4 ms between; our write gate against SQLite's busy handler."""
    folder = scale.place("fairness")
    for name in ("ours", "sqlite"):
        Store(folder / f"{name}.db", "FULL")
    with crew(_WRITERS) as workers:
        for think_ms in (0, 4):
            seen: dict[str, list[tuple[float, float, int, float]]] = {"ours": [], "sqlite": []}
            for number in range(scale.rounds):
                for name in ("ours", "sqlite") if number % 2 else ("sqlite", "ours"):
                    found = workers.run(
                        [
                            (
                                _write,
                                (folder / f"{name}.db", name, scale.load_s, think_ms, f"{think_ms}x{number}x{worker}"),
                            )
                            for worker in range(_WRITERS)
                        ]
                    )
                    counts = [count for count, _, _ in found]
                    longest, errors = max(each[1] for each in found), sum(each[2] for each in found)
                    seen[name].append((longest, _jain(counts), errors, sum(counts) / scale.load_s))
            yield from _fairness_lines(seen, think_ms)


def _fairness_lines(seen: dict[str, list[tuple[float, float, int, float]]], think_ms: int) -> Iterator[Line]:
    longest = {name: [each[0] for each in found] for name, found in seen.items()}
    fair = {name: Spread.of(each[1] for each in found) for name, found in seen.items()}
    errors = {name: sum(each[2] for each in found) for name, found in seen.items()}
    rate = {name: Spread.of(each[3] for each in found).median for name, found in seen.items()}
    shorter = ratios(longest["ours"], longest["sqlite"])
    beside = f"{Spread.of(longest['ours']):.0f} ms against {Spread.of(longest['sqlite']):.0f} ms; "
    beside += f"{rate['ours']:,.0f}/s against {rate['sqlite']:,.0f}/s"
    why = "the kernel wakes a waiting process, and the last owner may take the lock again before it runs"
    theirs = f"SQLite's {fair['sqlite'].median:.2f}"
    if not think_ms:
        what = f"{_WRITERS} processes write, FULL, all the time"
        long = f"{what}: longest wait / SQLite's busy handler's"
        beside += f"; {errors['ours']} busy errors against {errors['sqlite']}"
        yield watched(long, shorter, is_less_better=True, beside=beside, reason=why)
        why = "a process that writes without a pause is back at the gate before the kernel has woken the next"
        yield watched(f"{what}: fairness (Jain)", fair["ours"], beside=theirs, reason=why)
        return
    what = f"{_WRITERS} processes write, FULL, {think_ms} ms between: longest wait / SQLite's busy handler's"
    yield at_most(what, shorter, 0.05, "", beside=beside, reason=why)
    yield at_least("the same, fairness (Jain)", fair["ours"], 0.99, beside=theirs, spec=".3f")
    yield must_be(
        "the same, busy errors",
        str(errors["ours"]),
        is_met=errors["ours"] == 0,
        bar="0",
        beside=f"SQLite's {errors['sqlite']}",
    )


def _write(start: float, path: Path, name: str, seconds: float, think_ms: int, prefix: str) -> tuple[int, float, int]:
    """Commits, the longest in milliseconds, and busy errors."""
    store = Store(path, "FULL", prefix=prefix)
    if name == "sqlite":
        store.conn.set_busy_handler(None)
        store.conn.set_busy_timeout(_BUSY_MS)
    write = store.insert_one if name == "ours" else store.insert_one_ungated
    wait_until(start)
    done, longest, errors = 0, 0.0, 0
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        try:
            write()
            done += 1
        except apsw.BusyError:
            errors += 1
        longest = max(longest, (time.perf_counter() - begin) * 1000)
        if think_ms:
            time.sleep(think_ms / 1000)
    store.conn.close()
    return done, longest, errors


def _jain(counts: list[int]) -> float:
    """1 when all got the same, 1/n when one got all."""
    total = sum(counts)
    return total * total / (len(counts) * sum(each * each for each in counts)) if total else 0.0


LINES = (group_commit, fairness)
