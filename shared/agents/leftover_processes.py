"""What a turn's programs left behind: found by the mark in their environment, whatever session they are in.

A process group is not all that a program can start, and ``kill -9`` of dispatch spares the grandchildren. They would go
on beside the same turn's next try. Every process inherits its starter's environment, so each provider puts the turn's
token there, and whatever carries it when the turn is over by force is ended.

Linux only (``/proc``); elsewhere nothing is found.
"""

import contextlib
import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

MARK = "POSTROOM_TURN"

_PROCESSES = Path("/proc")
_PASSES = 5  # what is started while we look is found by the next look


def kill(turns: Collection[str]) -> int:
    """Kill every process of ours that belongs to one of *turns* (their tokens); how many there were."""
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
        except OSError:  # it has ended, or is somebody else's
            continue
        if not marks.isdisjoint(environment.split(b"\0")) and int(entry.name) != os.getpid():
            yield int(entry.name)
