"""What must be true after every crash run: the promises of :mod:`emulator.proving.promises`, as assertions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from emulator.proving import promises
from emulator.proving.host import Post
from emulator.proving.ledger import WRITTEN
from emulator.proving.promises import Promise
from emulator.proving.replica import differences
from emulator.proving.witnesses import Witnesses, read_journal

__all__ = [
    "WRITTEN", "check", "check_replica", "check_so_far", "check_stored", "check_turns", "completed", "hold", "journal",
]  # fmt: skip


def hold(seen: Witnesses, kept: Iterable[Promise]) -> None:
    """Fail with what is wrong, unless each of the promises is kept."""
    problems = promises.problems_of(seen, kept)
    assert not problems, "\n".join(problems[:40])


def completed(seen: Witnesses) -> list[str]:
    """Where nothing is meant to fail: every message is completed."""
    return [
        f"{text!r} is {status}: {error}"
        for text, status, error in seen.rows(f"SELECT message, status, last_error {WRITTEN} AND status <> 'completed'")
    ]


def check(post: Post, *, all_completed: bool = False) -> None:
    """Check every promise. All work is finished; the host may be up or not."""
    hold(post.witnesses(), [*promises.PROMISES.values(), *([completed] if all_completed else [])])


def check_so_far(post: Post) -> None:
    """Check the promises that hold while work is pending."""
    hold(post.witnesses(), [promises.turns, promises.sent, promises.sound])


def check_turns(post: Post) -> None:
    """Check the promises about turns and their answers, where people write more than plain texts."""
    kept = [promises.ended, completed, promises.turns, promises.answered, promises.sound]
    hold(post.witnesses(), kept)


def check_stored(post: Post) -> None:
    """Check the promises that hold where only ``ingest`` runs."""
    hold(post.witnesses(), [promises.stored, promises.sound])


def check_replica(post: Post, folder: Path, timeout_s: float = 60.0) -> None:
    """Stop all writers, then check that the replica restores to the same rows."""
    assert differences(post, folder, timeout_s) == []


def journal(post: Post) -> list[dict[str, Any]]:
    """The lines of the agents, in the order of time."""
    return read_journal(post.record)
