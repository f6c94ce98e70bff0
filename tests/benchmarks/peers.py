"""The peers, each used as in its manual. None of them has a lease, a fence or an order per session.

``finish`` is claim and completion. huey deletes a task when it hands it out: its ``finish`` is that alone, and a worker
that dies loses the task.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Peer:
    """Put one message in; claim and complete one; how many wait."""

    put: Callable[[str], object]
    finish: Callable[[], object]
    waiting: Callable[[], int]


def peers(folder: Path, synchronous: str) -> dict[str, Peer]:
    """The peers, each on its own file in *folder*."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "litequeue": _litequeue(folder, synchronous),
            "huey": _huey(folder, synchronous),
            "persist-queue": _persist_queue(folder, synchronous),
        }


def _litequeue(folder: Path, synchronous: str) -> Peer:
    import litequeue  # type: ignore[import-untyped]

    queue = litequeue.LiteQueue(str(folder / "litequeue.db"))
    queue.conn.execute(f"PRAGMA synchronous = {synchronous}")
    return Peer(queue.put, lambda: queue.done(queue.pop().message_id), queue.qsize)


def _huey(folder: Path, synchronous: str) -> Peer:
    import huey  # type: ignore[import-untyped]

    # Its own fsync=False is OFF, which promises less than NORMAL.
    storage: Any = huey.SqliteHuey(filename=str(folder / "huey.db")).storage
    storage.conn.execute(f"PRAGMA synchronous = {synchronous}")
    return Peer(lambda text: storage.enqueue(text.encode()), storage.dequeue, storage.queue_size)


def _persist_queue(folder: Path, synchronous: str) -> Peer:
    import persistqueue

    queue: Any = persistqueue.SQLiteAckQueue(str(folder / "persist"), auto_commit=True)
    queue._putter.execute(f"PRAGMA synchronous = {synchronous}")
    return Peer(queue.put, lambda: queue.ack(queue.get()), lambda: int(queue.size))
