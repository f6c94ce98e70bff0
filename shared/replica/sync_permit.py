"""Whether what Litestream calls replicated may be acknowledged: a permit that runs out, in a file beside its socket.

The keeper (``infra/litestream/supervisor.py``) gives it when ``lease.json`` says that the replica is ours and its place
begun, each time until that lease runs out, and withdraws it before another Litestream starts. Whoever waits for the
replica looks at it *after* Litestream has answered. It holds at that moment: then the row was in the bucket while
nobody else could have taken the lease, and whoever takes it later restores the row. A keeper that is frozen or dead
renews nothing.

The time is this machine's since it was started: the same for all its processes, and nobody sets it.
"""

import time
from pathlib import Path

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux's goes on while the machine sleeps


def now_s() -> float:
    """Seconds since the machine was started."""
    return time.clock_gettime(_CLOCK)


def give(socket: Path, until_s: float) -> None:
    """Let what the Litestream at *socket* says be relied on until then; in place of an earlier permit."""
    fresh = _beside(socket).with_suffix(".tmp")
    fresh.write_text(repr(until_s))
    fresh.replace(_beside(socket))


def withdraw(socket: Path) -> None:
    _beside(socket).unlink(missing_ok=True)


def is_given(socket: Path) -> bool:
    """Whether there is one, and it has not run out."""
    try:
        return now_s() < float(_beside(socket).read_text())
    except (OSError, ValueError):
        return False


def _beside(socket: Path) -> Path:
    return socket.with_name(f"{socket.name}.permit")
