"""Section 3, the size of the files: pruning while messages come in, and the WAL over ten minutes."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from shared.core.time import clock
from shared.db.engine.connection import rows
from tests.benchmarks.growth import build
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, ms, percentile
from tests.benchmarks.harness.store import Store
from tests.benchmarks.harness.system import System, tick
from tests.benchmarks.replicated import Paced

_DAYS_MS = 24 * 60 * 60 * 1000


def prune(scale: Scale) -> Iterator[Line]:
    """A million messages and their answers are old enough to go; 200 messages a second come in meanwhile."""
    count = scale.few(1_000_000, 20_000)
    place = scale.place("prune")
    build(place / "postroom.db", count, created_at=clock.now_ms() - 3 * _DAYS_MS)
    with System(place) as system:
        system.start("sweep")
        paced = Paced(Store(system.db, "FULL", clock=clock.now_ms))
        paced.run(1.0)
        quiet, quiet_waits = _load(paced, scale.few(60, 2), lambda: False)
        over = threading.Event()
        held_ms: list[float] = []
        begun = time.perf_counter()
        with ThreadPoolExecutor(1) as executor:
            sweeping = executor.submit(_sweep, system, held_ms)
            sweeping.add_done_callback(lambda _: over.set())
            longest, waits = _load(paced, 600, over.is_set)
            sweeping.result()
        took = time.perf_counter() - begun
        left, before = _rows(paced), _pages(paced)
        for _ in range(0, count // 20, 1000):
            paced.store.insert_many(1000)
        grown = _pages(paced) / before
        paced.store.conn.close()
    yield at_most(
        f"prune {count:,} messages and answers at 200 messages/s: the longest wait of a write for the lock",
        Spread.of([max(waits)]),
        10,
        "ms",
        beside=f"p99.9 {percentile(waits, 0.999):.1f} ms, {sum(each > 10 for each in waits)} of {len(waits):,} over "
        f"10 ms; without pruning, the minute before, the longest {max(quiet_waits):.1f} ms; the sweep's longest batch "
        f"{max(held_ms):.1f} ms, all {took:.0f} s, {left:,} old rows left; the longest write {longest:.0f} ms, without "
        f"pruning {quiet:.0f} ms",
        reason="a batch keeps the lock while the disk or another process on the two cores delays it",
    )
    yield at_most(
        f"the file after {count // 20:,} more messages / after pruning",
        Spread.of([grown]),
        1.0,
        "",
        beside=f"{before * 4096 / 1e6:,.0f} MB",
        reason="not all free pages are used again",
    )


def _sweep(system: System, held_ms: list[float]) -> None:
    """Send ticks until a sweep leaves nothing to the next; note the longest batch of each."""
    while True:
        found = tick(system, "sweep")
        held_ms.append(found["longest_batch_ms"])
        if not found.get("left"):
            return


def _load(paced: Paced, seconds: float, until: Callable[[], bool]) -> tuple[float, list[float]]:
    """Write at the even pace; the longest write, and each write's wait for the lock, in ms."""
    paced.longest_ms = 0.0
    paced.waits_ms = []
    paced.run(seconds, until=until)
    return paced.longest_ms, paced.waits_ms


def _rows(paced: Paced) -> int:
    """How many old messages and answers are left."""
    cutoff = clock.now_ms() - _DAYS_MS
    sql = (
        "SELECT (SELECT count(*) FROM messages WHERE created_at < :cutoff)"
        " + (SELECT count(*) FROM responses WHERE acked_at < :cutoff)"
    )
    return int(rows(paced.store.conn, sql, {"cutoff": cutoff})[0][0])


def _pages(paced: Paced) -> int:
    return int(rows(paced.store.conn, "PRAGMA page_count")[0][0])


def wal(scale: Scale) -> Iterator[Line]:
    """200 messages a second for minutes, on a database with Litestream and on one without, at the same time."""
    with System(scale.place("soak")) as system:
        system.litestream(f"file://{system.folder / 'replica'}")
        both = [Paced(Store(system.db, "FULL")), Paced(Store(scale.place("soak-plain") / "plain.db", "FULL"))]
        with ThreadPoolExecutor(2) as executor:
            list(executor.map(lambda paced: paced.run(scale.soak_s), both))
    for paced, how in zip(both, ("with Litestream", "without"), strict=True):
        yield at_most(
            f"WAL at 200 messages/s for {scale.soak_s / 60:.1f} min, {how}: the most",
            Spread.of([paced.wal_mb]),
            64,
            "MB",
            beside=f"the longest write {ms(paced.longest_ms / 1000)}",
        )
        paced.store.conn.close()


LINES = (prune, wal)
