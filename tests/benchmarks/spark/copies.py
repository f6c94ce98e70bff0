"""From the commit to its object, and from the objects to a file that readers on the host share."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from shared.db.replica import sync
from shared.db.replica.litestream_program import program
from spark_jobs import replicas
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, interleave, ms, must_be, percentile, ratios
from tests.benchmarks.harness.store import Store
from tests.benchmarks.harness.system import System
from tests.benchmarks.spark.history import history

_PAUSE_S = 0.137  # no multiple of Litestream's own interval
_LIMIT_S = 30.0
_ROWS_OF_1_GB = 2_500_000


def commit_to_object(scale: Scale) -> Iterator[Line]:
    """Commits one after another, each followed to its object; then commits that ask for it over the socket."""
    with System(scale.place("commit")) as system:
        url, environment = system.s3()
        system.litestream(url, environment)
        store = Store(system.db, "FULL")
        _followed(store, system.folder / "s3")  # the first commit makes the whole copy
        count = scale.few(60, 5)
        rounds, synced = [], []
        for _ in range(scale.rounds):
            rounds.append([_followed(store, system.folder / "s3") for _ in range(count)])
            synced.append([_synced(store, system) for _ in range(count)])
        store.conn.close()
    for name, share, bar in (("median", 0.5, 250.0), ("p99", 0.99, 1200.0)):
        value = Spread.of(percentile(times, share) * 1000 for times in rounds)
        yield at_most(f"commit to object, S3 on loopback, {name}", value, bar, "ms")
    value = Spread.of(percentile(times, 0.5) * 1000 for times in synced)
    reason = "most of it is the answer of this S3, which is Python"
    yield at_most("commit to its `sync` with wait, S3 on loopback, p50", value, 10, "ms", reason=reason)


def _followed(store: Store, folder: Path) -> float:
    """Seconds from a commit to a new object."""
    time.sleep(_PAUSE_S)
    before = _objects(folder)
    store.insert_one()
    start = time.perf_counter()
    while _objects(folder) <= before:
        if time.perf_counter() > start + _LIMIT_S:
            raise RuntimeError(f"no new object in {folder} for {_LIMIT_S:g} s")
        time.sleep(0.001)
    return time.perf_counter() - start


def _objects(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*/*.ltx.object")}


def _synced(store: Store, system: System) -> float:
    time.sleep(_PAUSE_S)
    store.insert_one()
    start = time.perf_counter()
    asyncio.run(sync.sync(system.control, system.db, _LIMIT_S))
    return time.perf_counter() - start


def restore(scale: Scale) -> Iterator[Line]:
    """Our code (pin, lock, quick check) in turns with the program alone; then a second reader on the host."""
    past = history(scale, scale.few(_ROWS_OF_1_GB, 20_000))
    folder = scale.place("restore")

    def ours() -> float:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        start = time.perf_counter()
        replicas.restore_pinned(past.url, txid=past.today.txid, cache_dir=folder / "cache")
        return time.perf_counter() - start

    def alone() -> float:
        (folder / "alone.db").unlink(missing_ok=True)
        start = time.perf_counter()
        command = [program(), "restore", "-txid", past.today.txid, "-o", str(folder / "alone.db"), past.url]
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - start

    seen = interleave({"ours": ours, "alone": alone}, scale.rounds)
    path = replicas.ensure_local(past.today, folder / "cache")
    size = path.stat().st_size / 1e9
    yield at_most(
        f"restore {size:.2f} GB: pin, lock, quick check / `litestream restore` alone",
        ratios(seen["ours"], seen["alone"]),
        1.25,
        "",
        beside=f"{Spread.of(seen['ours']):.1f} s, alone {Spread.of(seen['alone']):.1f} s",
        reason="the quick check reads the file once more",
    )
    start, inode = time.perf_counter(), path.stat().st_ino
    second = replicas.ensure_local(past.today, folder / "cache")
    took = time.perf_counter() - start
    is_same = second == path and second.stat().st_ino == inode
    yield must_be("a second reader on the host", "no restore" if is_same else "restored", is_met=is_same,
                  bar="no restore", beside=ms(took))  # fmt: skip


LINES = (commit_to_object, restore)
