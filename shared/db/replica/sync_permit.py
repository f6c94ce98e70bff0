"""The sync permit: a file that says until when Litestream's "replicated" may be acknowledged to people.

The supervisor (``infra/litestream/supervisor.py``) grants it when ``lease.json`` says that the replica is ours and its
prefix has a full copy. It grants it each time until the lease runs out, and revokes it before another Litestream
starts. A function that waits for the replica reads it *after* Litestream has answered. If it is valid then, the row was
in the bucket while no other machine could have taken the lease, and a machine that takes it later restores the row. A
supervisor that is frozen or dead renews nothing.

The time is this machine's since it was started: all its processes see the same, and no one sets it.
"""

import time
from pathlib import Path

from shared.db.engine.owner_only import replace_text

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux's goes on while the machine sleeps


def now_s() -> float:
    """Seconds since the machine was started."""
    return time.clock_gettime(_CLOCK)


def grant(socket: Path, until_s: float) -> None:
    """Let callers rely on the Litestream at *socket* until then; replaces an earlier permit."""
    replace_text(_permit_of(socket), repr(until_s))


def revoke(socket: Path) -> None:
    """Remove the permit; without one nothing is acknowledged."""
    _permit_of(socket).unlink(missing_ok=True)


def is_valid(socket: Path) -> bool:
    """Whether there is a permit, and it has not run out."""
    try:
        return now_s() < float(_permit_of(socket).read_text())
    except (OSError, ValueError):
        return False


def _permit_of(socket: Path) -> Path:
    return socket.with_name(f"{socket.name}.permit")
