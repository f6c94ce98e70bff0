"""Section 1 while Litestream replicates: 200 messages a second, each stored, claimed and settled."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from shared.db.engine.connection import transaction
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, must_be, percentile, ratios, watched
from tests.benchmarks.harness.store import Store
from tests.benchmarks.harness.system import System, forced_snapshots

_PER_SECOND = 200


def under_litestream(scale: Scale) -> Iterator[Line]:
    """The same load on a database with Litestream and on one without, in turns."""
    with System(scale.place("replicated")) as system:
        log = system.litestream(f"file://{system.folder / 'replica'}", is_watched=True)
        replicated, plain = Store(system.db, "FULL"), Store(scale.place("plain") / "plain.db", "FULL")
        with_, without = Paced(replicated), Paced(plain)
        for paced in (with_, without):
            paced.run(1.0)
            paced.longest_ms = paced.wal_mb = 0.0
        for number in range(scale.rounds):
            for paced in (with_, without) if number % 2 else (without, with_):
                paced.round(scale.few(6, 2))
        forced = forced_snapshots(log)
        replicated.conn.close()
        plain.conn.close()
    for share in (0.5, 0.99):
        mine, theirs = ([percentile(each, share) for each in paced.rounds] for paced in (with_, without))
        yield watched(
            f"enqueue at {_PER_SECOND} messages/s, with Litestream / without: p{share * 100:.0f}",
            ratios(mine, theirs),
            is_less_better=True,
            beside=f"{Spread.of(mine):.2f} ms against {Spread.of(theirs):.2f} ms",
        )
    yield at_most(
        "the same, the longest of all writes (enqueue, claim, settle)",
        Spread.of([with_.longest_ms]),
        25,
        "ms",
        beside=f"without Litestream {without.longest_ms:.1f} ms",
        reason="it includes the pauses of the disk; the other database met those in the same minutes",
    )
    yield must_be("the same, forced snapshots", str(forced), is_met=forced == 0, bar="0")
    yield at_most(
        "the same, WAL",
        Spread.of([with_.wal_mb]),
        16,
        "MB",
        beside=f"without Litestream {without.wal_mb:.1f} MB",
        reason="Litestream holds a checkpoint back while it reads",
    )


class Paced:
    """Writes messages at an even pace and notes how long each write takes."""

    def __init__(self, store: Store, per_second: int = _PER_SECOND) -> None:
        self.store = store
        self._gap_s = 1 / per_second
        self._wal = Path(f"{store.path}-wal")
        self.rounds: list[list[float]] = []
        self.longest_ms = 0.0  # of a whole write, the disk included
        self.waits_ms: list[float] = []  # of each enqueue, for the lock alone
        self.wal_mb = 0.0

    def round(self, seconds: float) -> None:
        """One round, kept."""
        self.rounds.append(self.run(seconds))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> list[float]:
        """Milliseconds of each enqueue, for *seconds* or *until* it is true."""
        enqueues = []
        due = time.perf_counter()
        end = due + seconds
        while due < end and not until():
            time.sleep(max(0.0, due - time.perf_counter()))
            due += self._gap_s
            enqueues.append(self._timed(self._insert))
            self._timed(lambda: self.store.turn(10))
            self.wal_mb = max(self.wal_mb, self._wal.stat().st_size / 1e6)
        return enqueues

    def _insert(self) -> None:
        start = time.perf_counter()
        with transaction(self.store.conn):
            self.waits_ms.append((time.perf_counter() - start) * 1000)
            self.store.insert()

    def _timed(self, work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        took = (time.perf_counter() - start) * 1000
        self.longest_ms = max(self.longest_ms, took)
        return took


LINES = (under_litestream,)
