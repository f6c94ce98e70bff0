"""Whether the processes that a test started are still there, whether they stand still, and what they hold."""

import contextlib
import os
import re
import signal
import time
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


def freeze(pid: int, limit_s: float = 60.0) -> None:
    """Send SIGSTOP, and return when no thread of the process runs any more.

    ``kill`` returns before: on a busy machine other threads go on until the one that takes the signal gets its turn.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + limit_s
    while states_of_threads(pid) != {"T"}:
        assert time.monotonic() < deadline, f"process {pid} goes on after SIGSTOP"
        time.sleep(0.001)


def states_of_threads(pid: int) -> set[str]:
    """The letters that ``ps`` shows for the threads of the process."""
    found = set()
    for entry in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            found.add((entry / "stat").read_text().rpartition(")")[2].split()[0])
    return found


def opened(pid: int) -> dict[int, str]:
    """What the process has open: its descriptors, and the paths, ``socket:[…]`` or ``pipe:[…]`` behind them."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            found[int(entry.name)] = str(entry.readlink())
    return found


def processes_naming(text: str) -> list[int]:
    """The processes, in any namespace, with *text* in their command line; no zombies, which have none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def inheritable(pid: int) -> list[str]:
    """The descriptors, beside the three standard ones, that a program gets which the process starts."""
    found = []
    for number, target in sorted(opened(pid).items()):
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            flags = re.search(r"^flags:\s*(\d+)", Path(f"/proc/{pid}/fdinfo/{number}").read_text(), re.MULTILINE)
            if number > 2 and flags is not None and not int(flags[1], 8) & os.O_CLOEXEC:
                found.append(f"{number} -> {target}")
    return found
