"""Kills the processes that a turn's program left behind, found by a variable in their environment.

A program can start processes outside its process group, and ``kill -9`` of dispatch spares the grandchildren. They
would run beside the turn's next attempt. A process inherits its parent's environment, so each provider puts the turn's
token there. When a turn ends by force, every process with its token is killed, in whatever session it runs.

Linux only (``/proc``); on other systems nothing is found.
"""

import contextlib
import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

MARK = "POSTROOM_TURN"

_PROCESSES = Path("/proc")
_PASSES = 5  # a process that starts during one pass is found by the next


def kill(turns: Collection[str]) -> int:
    """Kill every process of our user that belongs to one of *turns*; the number of processes.

    Args:
        turns: their tokens.
    """
    marks = {f"{MARK}={turn}".encode() for turn in turns}
    count = 0
    for _ in range(_PASSES if marks else 0):
        found = list(_marked(marks))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        count += len(found)
        if not found:
            break
    return count


def _marked(marks: set[bytes]) -> Iterator[int]:
    for entry in _PROCESSES.glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:  # the process has ended, or belongs to another user
            continue
        if not marks.isdisjoint(environment.split(b"\0")) and int(entry.name) != os.getpid():
            yield int(entry.name)
