"""Whether the processes that a test started are still there."""

import contextlib
import os
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists and is not a zombie (a zombie holds nothing)."""
    with contextlib.suppress(OSError):  # it has just ended, or the system has no /proc
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def processes_naming(text: str) -> list[int]:
    """The processes, in any namespace, with *text* in their command line; no zombies, which have none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
